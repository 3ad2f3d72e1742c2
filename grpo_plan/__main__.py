"""``python -m grpo_plan``."""

from grpo_plan.cli.main import main

if __name__ == "__main__":
    main()
