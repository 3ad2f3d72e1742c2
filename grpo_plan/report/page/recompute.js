// What a design would do, from the report's tables alone: the twin of grpo_plan/report/recompute.py.

const FLAT_SHARE = 0.9;
const WORTH_LIMITS = 0.8;
const ROUNDING = 1 + 1e-12;
const SAFE = /^[A-Za-z0-9@%+=:,./_-]+$/;

/** Everything that the page shows of a choice. */
function recompute(whatIf, choice) {
  const preset = whatIf.presets[choice.preset];
  const at = preset.group_sizes.indexOf(choice.group_size);
  const size = choice.group_size;
  const dead = deadOf(preset, at);
  const costs = preset.group_sizes.map((_, i) => costOf(preset, i, choice.refill));
  const designs = costs.map((each) => designOf(choice, each));
  const moments = momentsOf(preset, designs);
  const made = designs[at];
  const commands = commandsOf(whatIf, preset, choice, made);
  const refused = () => ({
    feasible: false,
    reason: refusal(choice, dead),
    design: null,
    dead,
    effective_batch: null,
    cost: null,
    cost_in_batches: null,
    progress: [],
    curves: [],
    noise_to_signal: null,
    refill: null,
    commands,
  });
  if (made === null) return refused();
  const [prompts, steps] = made;
  let filled = null;
  if (choice.refill) {
    const batch = batchSize(prompts, choice.batch_multiplier, choice.gen_batch_size);
    filled = refilled(dead, prompts, size, batch, choice.max_rounds, steps);
    if (filled === null) return refused();
  }
  const [atLow, atHigh] = costLimits(preset, at, choice.refill, prompts, steps);
  const groups = filled === null ? prompts : filled.mixed_groups.value / mixedShare(preset, at);
  const { rows, curves } = progressOf(whatIf, preset, choice, at, costs, designs, moments);
  return {
    feasible: true,
    reason: null,
    design: { group_size: size, prompts_per_step: prompts, steps, rollouts_per_step: prompts * size },
    dead,
    effective_batch:
      filled === null
        ? mixedBatch(prompts, size, dead)
        : filled.max_rounds === null
          ? fullBatch(prompts, size)
          : cappedBatch(prompts, size, dead, filled),
    cost: {
      of: steps === null ? "step" : "run",
      ...runCost(preset.cost, costs[at], prompts, steps === null ? 1 : steps),
      at_dead_low: atLow,
      at_dead_high: atHigh,
    },
    cost_in_batches: filled === null ? null : costInBatches(preset, at, prompts, steps, filled),
    progress: rows,
    curves,
    noise_to_signal: noiseOf(whatIf, preset, choice, moments, at, groups),
    refill: filled,
    commands,
  };
}

/** The dead fraction, as the tables hold it. */
function deadOf(preset, at) {
  const found = {
    value: preset.dead[at],
    low: preset.dead_low[at],
    high: preset.dead_high[at],
    status: preset.status[at],
    identified: preset.identified[at],
    mixed: 1 - preset.dead[at],
  };
  for (const part of ["all_fail", "all_pass"]) {
    for (const end of ["", "_low", "_high"]) found[part + end] = preset[part + end][at];
  }
  return found;
}

/** Share of mixed groups, summed over the law of passes. */
function mixedShare(preset, at) {
  return contentsOf(preset.pmf[at]).mixed;
}

/** Cost of one prompt a step at the estimate. */
function costOf(preset, at, refill) {
  const content = contentsOf(preset.pmf[at]);
  return promptCost(preset.cost, preset.group_sizes[at], content, refill, content.mixed);
}

/** Cost of the run at the limits of the dead fraction, where it depends on them. */
function costLimits(preset, at, refill, prompts, steps) {
  if (!refill && !preset.cost.train_mixed_only) return [null, null];
  const content = contentsOf(preset.pmf[at]);
  return [preset.dead_low[at], preset.dead_high[at]].map((end) => {
    const each = promptCost(preset.cost, preset.group_sizes[at], content, refill, 1 - end);
    return runCost(preset.cost, each, prompts, steps === null ? 1 : steps);
  });
}

/** Prompts per step and steps; null where even one prompt, or one step, is too much. */
function designOf(choice, each) {
  let { prompts_per_step: prompts, steps } = choice;
  const budget = choice.budget_rollouts;
  if (each === null) return null;
  if (budget === null) return [prompts, steps];
  const line = each.rollout_equivalents;
  if (prompts === null) prompts = settle(budget / steps / line, (n) => steps * (n * line) <= budget * ROUNDING);
  else steps = settle(budget / (prompts * line), (n) => n * (prompts * line) <= budget * ROUNDING);
  return prompts === 0 || steps === 0 ? null : [prompts, steps];
}

/** The largest whole number that fits, from a guess that rounding may have moved. */
function settle(guess, fits) {
  let found = Math.floor(guess);
  while (found > 0 && !fits(found)) found -= 1;
  while (fits(found + 1)) found += 1;
  return found;
}

/** Why there is no such design. */
function refusal(choice, dead) {
  const size = choice.group_size;
  if (choice.refill && (dead.value >= 1 || dead.low >= 1)) return `A refill would never end: no group of ${size} is mixed.`;
  return `The budget does not pay for one step of groups of ${size}. Raise it, or take fewer prompts or steps.`;
}

/** Mixed groups of a step: a binomial law (eq. 21). */
function mixedBatch(prompts, size, dead) {
  const [p05, p50, p95] = binomialQuantiles(prompts, dead.value, [0.05, 0.5, 0.95]);
  const sd = Math.sqrt(prompts * (dead.value * (1 - dead.value)));
  const mixed = { mean: prompts * (1 - dead.value), sd, p05, p50, p95 };
  return {
    mixed_groups: { ...mixed, mean_low: prompts * (1 - dead.high), mean_high: prompts * (1 - dead.low) },
    live_rollouts: scaled(mixed, size),
    dead_batch_probability: dead.value ** prompts,
  };
}

/** Of a step that is refilled: all its groups are mixed. */
function fullBatch(prompts, size) {
  const mixed = { mean: prompts, sd: 0, p05: prompts, p50: prompts, p95: prompts };
  return {
    mixed_groups: { ...mixed, mean_low: null, mean_high: null },
    live_rollouts: scaled(mixed, size),
    dead_batch_probability: 0,
  };
}

/** Of a step that gives up: the lesser of its groups and the mixed ones among all prompts within the cap (eq. 139). */
function cappedBatch(prompts, size, dead, filled) {
  const most = filled.max_rounds * filled.gen_batch_size;
  const [p05, p50, p95] = binomialQuantiles(most, dead.value, [0.05, 0.5, 0.95]).map((k) => Math.min(prompts, k));
  const held = filled.mixed_groups;
  const mixed = { mean: held.value, p05, p50, p95 };
  return {
    mixed_groups: { ...mixed, sd: null, mean_low: held.low, mean_high: held.high },
    live_rollouts: { ...scaled(mixed, size), sd: null },
    dead_batch_probability: dead.value ** most,
  };
}

/** Cost of what the generation batches of a refill draw, within its cap, where a plan counts prompts one at a time. */
function costInBatches(preset, at, prompts, steps, filled) {
  const content = contentsOf(preset.pmf[at]);
  const size = preset.group_sizes[at];
  const of = (count, kept) => {
    if (count === null || kept === null) return null;
    const each = promptCost(preset.cost, size, content, true, 1, [count / prompts, kept / prompts]);
    return runCost(preset.cost, each, prompts, steps === null ? 1 : steps);
  };
  const { prompts: drawn, mixed_groups: held } = filled;
  return {
    ...of(drawn.mean, held.value),
    at_dead_low: of(drawn.mean_low, held.high),
    at_dead_high: of(drawn.mean_high, held.low),
  };
}

/** The chosen kappa, or both ends of the plan's. */
function kappasOf(whatIf, choice) {
  const { low, high } = whatIf.kappa;
  if (choice.kappa !== null) return [choice.kappa];
  return low === high ? [low] : [low, high];
}

/** Progress relative to the best group size of the table, at each kappa (eq. 26). */
function progressOf(whatIf, preset, choice, at, costs, designs, moments) {
  const rows = [];
  const curves = [];
  for (const kappa of kappasOf(whatIf, choice)) {
    const worth = designs.map((design, i) =>
      design === null ? 0 : comparable(preset, choice, costs[i], design) * worthOf(whatIf, moments, i, kappa),
    );
    const best = worth.indexOf(Math.max(...worth));
    if (!(worth[best] > 0)) {
      rows.push({ kappa, ratio: null, low: null, high: null, best_group_size: null, flat_range: null, best_status: null, flat_status: null });
      curves.push(null);
      continue;
    }
    const shares = worth.map((each) => each / worth[best]);
    const flat = preset.group_sizes.filter((_, i) => shares[i] >= FLAT_SHARE);
    const [low, high] = progressLimits(preset, moments === preset ? preset.limits : [], kappa, best, at, shares[at]);
    rows.push({
      kappa,
      ratio: shares[at],
      low,
      high,
      best_group_size: preset.group_sizes[best],
      flat_range: [flat[0], flat[flat.length - 1]],
      best_status: preset.status[best],
      flat_status: preset.status[preset.group_sizes.indexOf(flat[flat.length - 1])],
    });
    curves.push(shares);
  }
  return { rows, curves };
}

/** Groups that a design samples within the budget in rollouts; without one, per unit of cost. */
function comparable(preset, choice, each, design) {
  const [prompts, steps] = design;
  const total = runCost(preset.cost, each, prompts, steps === null ? 1 : steps);
  if (total === null) return 0;
  if (choice.budget_rollouts !== null) return total.groups;
  const known = ["usd", "gpu_hours", "generated_tokens"].map((name) => total[name]).find((value) => value !== null);
  const spent = known === undefined ? total.rollout_equivalents : known;
  return spent ? total.groups / spent : total.groups;
}

/** Moments of all group sizes by one law: that of the counts, if the largest that is feasible has them (eq. 28). */
function momentsOf(preset, designs) {
  const feasible = preset.group_sizes.filter((_, i) => designs[i] !== null);
  return preset.counted.find((row) => row.largest === feasible[feasible.length - 1]) || preset;
}

/** Squared mean of one group's estimate over its variance. */
function worthOf(whatIf, moments, at, kappa) {
  const signal = moments.signal[at];
  return signal > 0 ? signal ** 2 / varianceOf(whatIf, moments, at, kappa) : 0;
}

/** Variance of one group's gradient (eq. 25). */
function varianceOf(whatIf, moments, at, kappa) {
  return moments.signal_square[at] + kappa * moments.noise[at] - whatIf.coherence * moments.signal[at] ** 2;
}

/** Limits where the tables hold them: at the kappas of the plan, beside the same best group size. */
function progressLimits(preset, limits, kappa, best, at, ratio) {
  if (at === best) return [1, 1];
  for (const row of limits) {
    if (row.kappa === kappa && row.best === preset.group_sizes[best] && ratio >= WORTH_LIMITS) {
      const [low, high] = [row.log_low[at], row.log_high[at]];
      if (low !== null && high !== null) return [ratio * Math.exp(low), ratio * Math.exp(high)];
    }
  }
  return [null, null];
}

/** Noise-to-signal ratio of a step, where the coherence or a probe tells it (eq. 26 and 51). */
function noiseOf(whatIf, preset, choice, moments, at, groups) {
  const measured = preset.nsr;
  const signal = moments.signal[at];
  if (choice.kappa === null && measured !== null && measured.low[at] !== null) {
    const count = Math.max(1, roundHalfEven(groups));
    const share = (value) => (value === null ? null : value / count);
    return { value: share(measured.value[at]), low: share(measured.low[at]), high: share(measured.high[at]) };
  }
  if (whatIf.coherence === 0 || signal === 0) return null;
  let { low, high, value } = whatIf.kappa;
  if (choice.kappa !== null) low = high = value = choice.kappa;
  const ratio = (kappa) => varianceOf(whatIf, moments, at, kappa) / (groups * whatIf.coherence * signal ** 2);
  return { value: value === null ? null : ratio(value), low: ratio(low), high: ratio(high) };
}

function roundHalfEven(value) {
  const down = Math.floor(value);
  if (value - down !== 0.5) return Math.round(value);
  return down % 2 === 0 ? down : down + 1;
}

/** The commands that print the same numbers. */
function commandsOf(whatIf, preset, choice, made) {
  const begin = ["plan", ...preset.arguments, "--group-sizes"];
  const words = [];
  for (const name of ["prompts_per_step", "steps", "budget_rollouts"]) {
    if (choice[name] !== null) words.push(`--${name.replace(/_/g, "-")}`, String(choice[name]));
  }
  words.push("--kappa", choice.kappa === null ? whatIf.kappa_argument : String(choice.kappa));
  words.push(...whatIf.arguments, ...whatIf.cost_arguments, ...(choice.refill ? ["--refill"] : []));
  let refill = null;
  if (choice.refill && made !== null) {
    refill = ["refill", ...preset.arguments, "--prompts-per-step", String(made[0])];
    refill.push("--group-size", String(choice.group_size));
    if (choice.gen_batch_size !== null) refill.push("--gen-batch-size", String(choice.gen_batch_size));
    else if (choice.batch_multiplier !== null) refill.push("--batch-multiplier", String(choice.batch_multiplier));
    if (choice.max_rounds !== null) refill.push("--max-rounds", String(choice.max_rounds));
    if (made[1] !== null) refill.push("--steps", String(made[1]));
    refill.push(...whatIf.refill_arguments);
  }
  const [plan, design] = [preset.group_sizes.join(","), String(choice.group_size)].map((sizes) => commandLine([...begin, sizes, ...words]));
  return { plan, design, refill: refill === null ? null : commandLine(refill) };
}

/** A command as a person would type it. */
function commandLine(words) {
  return ["grpo-plan", ...words.map((word) => (SAFE.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`))].join(" ");
}
