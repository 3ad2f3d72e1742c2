"""Does a plan come true in training? A small language model, real GRPO, exact pass rates."""
