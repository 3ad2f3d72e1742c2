// A refill (theory.md, eq. 52, 53 and 139): the twins of grpo_plan/report/refilling.py.

const SURE = 0.95;
const SURPLUS_GRID = 17;

/** Rounds, prompts, rollouts, surplus and the chance to hit the cap; null where no step can be filled. */
function refilled(dead, wanted, groupSize, size, cap, steps) {
  if (dead.value === null || dead.value >= 1 || dead.low >= 1) return null;
  const value = refillAt(dead.value, wanted, groupSize, size, cap, steps);
  const low = refillAt(dead.low, wanted, groupSize, size, cap, steps);
  const high = dead.high < 1 ? refillAt(dead.high, wanted, groupSize, size, cap, steps) : null;
  let least = null;
  let most = null;
  if (high !== null) {
    const width = (dead.high - dead.low) / (SURPLUS_GRID - 1);
    const found = [value.surplus, low.surplus, high.surplus];
    for (let i = 1; i < SURPLUS_GRID - 1; i += 1) {
      found.push(drawnOf(new Waiting(wanted, dead.low + i * width), size, cap).surplus);
    }
    least = Math.min(...found);
    most = Math.max(...found);
  }
  const spread = (name) => ({
    ...value[name],
    mean_low: low[name].mean,
    mean_high: high === null ? null : high[name].mean,
    p95_low: low[name].p95,
    p95_high: high === null ? null : high[name].p95,
  });
  const ends = (of) =>
    of(value) === null ? null : { value: of(value), low: of(low), high: high === null ? null : of(high) };
  const oneRound = ends((at) => at.one_by_one.p95);
  const multiplier = (count) => (count === null ? null : multiplierFor(count, wanted));
  return {
    gen_batch_size: size,
    batch_multiplier: size / wanted,
    max_rounds: cap,
    status: high === null ? "MAY_NEVER_FILL" : "FILLS",
    one_by_one: spread("one_by_one"),
    rounds: spread("rounds"),
    prompts: spread("prompts"),
    rollouts: spread("rollouts"),
    mixed_groups: { value: value.held, low: high === null ? null : high.held, high: low.held },
    surplus_mixed_groups: { value: value.surplus, low: least, high: most },
    rounds_to_fill: ends((at) => at.toFill),
    cap_probability: ends((at) => at.cap),
    run_cap_probability: ends((at) => at.run_cap),
    safe_max_rounds: ends((at) => at.safe),
    one_round: {
      gen_batch_size: oneRound,
      batch_multiplier: {
        value: multiplier(oneRound.value),
        low: multiplier(oneRound.low),
        high: multiplier(oneRound.high),
      },
    },
  };
}

/** Smallest multiplier of two decimals that gives at least this generation batch. */
function multiplierFor(size, wanted) {
  let hundredths = Math.max(100, Math.ceil((100 * size) / wanted));
  while (Math.floor((hundredths / 100) * wanted) < size) hundredths += 1;
  return hundredths / 100;
}

/** Prompts of a generation batch. */
function batchSize(wanted, multiplier, size) {
  if (size !== null) return size;
  return multiplier === null ? wanted : Math.ceil(multiplier * wanted * (1 - 1e-12));
}

/** Mean and variance of the rounds, mixed groups held, and surplus. */
function drawnOf(law, size, cap) {
  const [mean, variance] = cap === null ? law.rounds(size) : law.within(size, cap);
  const held = cap === null ? law.wanted : law.held(cap * size);
  return { mean, variance, held, surplus: Math.max(0, (1 - law.dead) * mean * size - held) };
}

function refillAt(dead, wanted, groupSize, size, cap, steps) {
  const law = new Waiting(wanted, dead);
  const { mean, variance, held, surplus } = drawnOf(law, size, cap);
  const most = cap === null ? Infinity : cap;
  const single = { p05: law.fewest(0.95), p50: law.fewest(0.5), p95: law.fewest(0.05) };
  const tail = steps === null ? 1 - SURE : -Math.expm1(Math.log(SURE) / steps);
  const fails = cap === null ? null : law.beyond(cap * size);
  let runFails = null;
  if (fails !== null && steps !== null) runFails = fails >= 1 ? 1 : -Math.expm1(steps * Math.log1p(-fails));
  const counts = { mean, sd: Math.sqrt(variance) };
  for (const name of ["p05", "p50", "p95"]) counts[name] = Math.min(most, Math.ceil(single[name] / size));
  return {
    one_by_one: { mean: law.mean, sd: Math.sqrt(law.variance), ...single },
    rounds: counts,
    prompts: scaled(counts, size),
    rollouts: scaled(counts, size * groupSize),
    held,
    surplus,
    toFill: Math.ceil(single.p95 / size),
    cap: fails,
    run_cap: runFails,
    safe: steps === null ? null : Math.ceil(law.fewest(tail) / size),
  };
}

function scaled(counts, factor) {
  return Object.fromEntries(Object.entries(counts).map(([name, value]) => [name, value * factor]));
}
