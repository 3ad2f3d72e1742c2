// Cost of a group, a step and a run (theory.md, eq. 66 and 67): the twins of grpo_plan/report/costing.py.
// An amount is a number, or null where it is not known.

const COUNTED = ["groups", "trained_groups", "rollouts", "rollout_equivalents"];
const TOKENS = ["prefilled_tokens", "generated_tokens", "trained_tokens"];

/** Mean passes of a group, share of mixed groups, and passes in mixed groups, from the law of k. */
function contentsOf(pmf) {
  let passes = 0;
  let mixed = 0;
  let inside = 0;
  pmf.forEach((chance, k) => {
    passes += k * chance;
    if (k > 0 && k < pmf.length - 1) {
      mixed += chance;
      inside += k * chance;
    }
  });
  return { passes, mixed, inside };
}

/**
 * What one more prompt a step adds to a step; null where a refill would never end. A refill draws prompts one at a time;
 * `drawn` says otherwise: groups drawn, and groups trained on, for each prompt a step.
 */
function promptCost(cost, size, content, refill, mixed, drawn = null) {
  const onlyMixed = refill || cost.train_mixed_only;
  const prompt = cost.prompt_tokens;
  const job = cost.job_tokens_per_s;
  const tokens = responses(cost, content.passes, size - content.passes);
  let seconds;
  if (job !== null) {
    seconds = divided(cost.job_counts_prompts ? added(tokens, multiplied(prompt, size)) : tokens, job);
  } else {
    const reading = cost.prefill_tokens_per_s === null ? 0 : divided(prompt, cost.prefill_tokens_per_s);
    const scoring = (size * cost.reward_s) / cost.reward_parallel;
    seconds = added(divided(tokens, cost.decode_tokens_per_s), reading, scoring);
  }
  let trainedTokens = null;
  let training = null;
  if (!(onlyMixed && content.mixed <= 0)) {
    const held = onlyMixed ? content.inside / content.mixed : content.passes;
    trainedTokens = added(responses(cost, held, size - held), multiplied(prompt, size));
    training = job !== null ? 0 : divided(trainedTokens, cost.train_tokens_per_s);
  }
  if (refill && drawn === null && mixed <= 0) return null;
  const [factor, trainedFactor] = drawn || [refill ? 1 / mixed : 1, refill || !onlyMixed ? 1 : mixed];
  const total = {
    groups: factor,
    trained_groups: 0,
    rollouts: size * factor,
    rollout_equivalents: (size + cost.prompt_rollouts) * factor,
    prefilled_tokens: multiplied(prompt, factor),
    generated_tokens: multiplied(tokens, factor),
    trained_tokens: 0,
    seconds: multiplied(seconds, factor),
  };
  if (trainedFactor !== 0) {
    total.trained_groups = trainedFactor;
    total.trained_tokens = multiplied(trainedTokens, trainedFactor);
    total.seconds = added(total.seconds, multiplied(training, trainedFactor));
  }
  return total;
}

/** Cost of a run in every unit. */
function runCost(cost, each, prompts, steps) {
  if (each === null) return null;
  const total = {};
  for (const name of [...COUNTED, ...TOKENS]) total[name] = multiplied(multiplied(each[name], prompts), steps);
  total.seconds = multiplied(added(multiplied(each.seconds, prompts), cost.step_overhead_s), steps);
  total.gpu_hours = divided(multiplied(total.seconds, cost.gpus), 3600);
  total.usd = multiplied(total.gpu_hours, cost.usd_per_gpu_hour);
  return total;
}

function responses(cost, passes, fails) {
  return added(multiplied(cost.pass_tokens, passes), multiplied(cost.fail_tokens, fails));
}

function multiplied(value, factor) {
  return value === null || factor === null ? null : value * factor;
}

function divided(value, rate) {
  return value === null || rate === null ? null : value / rate;
}

function added(...values) {
  return values.includes(null) ? null : values.reduce((total, value) => total + value, 0);
}
