// The table that stands a choice beside the plan, and the sentence that says it.

const FAR = ["EXTRAPOLATED", "BEYOND_REACH", "UNKNOWN"];

/** Rows of the table: name, words of a result, and, where a difference makes sense, its number and form. */
function outcomeRows(kappas) {
  const batch = (result) => result.effective_batch;
  const mixed = (result) => batch(result).mixed_groups;
  const rows = [
    ["group size G", (r) => String(r.design.group_size), (r) => r.design.group_size, wholeWords],
    ["prompts a step", (r) => wholeWords(r.design.prompts_per_step), (r) => r.design.prompts_per_step, wholeWords],
    ["steps", (r) => (r.design.steps === null ? "not fixed" : wholeWords(r.design.steps)), (r) => r.design.steps, wholeWords],
    ["dead fraction", (r) => span(r.dead, "value", rateWords), (r) => r.dead.value, rateWords],
    ["all-fail", (r) => part(r.dead, "all_fail"), (r) => r.dead.all_fail, rateWords],
    ["all-pass", (r) => part(r.dead, "all_pass"), (r) => r.dead.all_pass, rateWords],
    ["status", (r) => r.dead.status],
    ["mixed groups, mean", (r) => meanWords(mixed(r)), (r) => mixed(r).mean, fewWords],
    ["mixed groups in 9 of 10 steps", (r) => `${wholeWords(mixed(r).p05)} to ${wholeWords(mixed(r).p95)}`],
    ["live rollouts, mean", (r) => wholeWords(batch(r).live_rollouts.mean), (r) => batch(r).live_rollouts.mean, wholeWords],
    ["chance that a step is all dead", (r) => chanceWords(batch(r).dead_batch_probability)],
  ];
  kappas.forEach((kappa, i) => {
    const at = (result) => result.progress[i];
    const name = `at kappa ${amountWords(kappa)}`;
    rows.push([`progress, of the best G's, ${name}`, (r) => progressWords(at(r)), (r) => at(r).ratio, rateWords]);
    rows.push([`best G (within 10 %) ${name}`, (r) => flatWords(at(r))]);
  });
  rows.push(
    ["noise to signal of a step", (r) => (r.noise_to_signal === null ? "unknown" : span(r.noise_to_signal, "value", amountWords))],
    ["rollouts in all", (r) => costWords(paidOf(r), "rollouts"), (r) => paidOf(r).rollouts, amountWords],
  );
  for (const [name, words] of [["generated_tokens", "response tokens"], ["gpu_hours", "GPU-hours"], ["usd", "USD"]]) {
    rows.push([
      `${words} in all`,
      (r) => costWords(paidOf(r), name),
      (r) => paidOf(r)[name],
      amountWords,
      (r) => paidOf(r)[name] !== null,
    ]);
  }
  rows.push([
    "rollouts in all, prompts one by one (a plan's count)",
    (r) => costWords(r.cost, "rollouts"),
    (r) => r.cost.rollouts,
    amountWords,
    (r) => r.refill !== null,
  ]);
  const filled = (result) => result.refill !== null;
  const spreadRow = (name, key, form) =>
    rows.push([name, (r) => (filled(r) ? countWords(r.refill[key], form) : "no refill"), (r) => (filled(r) ? r.refill[key].mean : null), form, filled]);
  spreadRow("prompts that fill a step, one by one", "one_by_one", fewWords);
  spreadRow("prompts drawn in batches", "prompts", fewWords);
  spreadRow("rounds", "rounds", (value) => value.toFixed(2));
  spreadRow("rollouts drawn in batches", "rollouts", wholeWords);
  const three = (name, key, form) =>
    rows.push([name, (r) => (filled(r) && r.refill[key] !== null ? span(r.refill[key], "value", form) : "-"), null, null, (r) => filled(r) && r.refill[key] !== null]);
  three("surplus mixed groups, thrown away", "surplus_mixed_groups", fewWords);
  three("chance that the cap leaves a step short", "cap_probability", chanceWords);
  three("chance that it ever does in the run", "run_cap_probability", chanceWords);
  three("cap that 95 % of runs never hit", "safe_max_rounds", wholeWords);
  rows.push([
    "batch multiplier for one round in 95 % of steps",
    (r) => (filled(r) ? span(r.refill.one_round.batch_multiplier, "value", (value) => value.toFixed(2)) : "-"),
    null,
    null,
    filled,
  ]);
  return rows;
}

/** What a run draws: of a refill, its generation batches within its cap. */
function paidOf(result) {
  return result.cost_in_batches === null ? result.cost : result.cost_in_batches;
}

function span(found, name, form) {
  if (found[name] === null) return limitsWords(found.low, found.high, form);
  return found.low === found[name] && found.high === found[name] ? form(found[name]) : intervalWords(found[name], found.low, found.high, form);
}

function part(dead, name) {
  return intervalWords(dead[name], dead[`${name}_low`], dead[`${name}_high`], rateWords);
}

function meanWords(count) {
  return count.mean_low === null ? fewWords(count.mean) : `${fewWords(count.mean)} ${countLimitsWords(count.mean_low, count.mean_high)}`;
}

function countWords(count, form) {
  if (count.mean_low === count.mean && count.mean_high === count.mean) return form(count.mean);
  return `${form(count.mean)} ${limitsWords(count.mean_low, count.mean_high, form)}`;
}

function progressWords(row) {
  if (row.ratio === null) return "unknown";
  if (row.low === null || row.high === null) return `${row.ratio.toFixed(3)}*`;
  return row.low === 1 && row.high === 1 ? "the best" : intervalWords(row.ratio, row.low, row.high, (value) => value.toFixed(3));
}

function flatWords(row) {
  if (row.best_group_size === null) return "unknown";
  const far = (status) => (FAR.includes(status) ? ` ${status}` : "");
  const last = row.flat_range[1] === row.best_group_size ? "" : far(row.flat_status);
  return `${row.best_group_size}${far(row.best_status)} (${row.flat_range[0]} to ${row.flat_range[1]}${last})`;
}

function costWords(cost, name) {
  const [low, high] = [cost.at_dead_low, cost.at_dead_high];
  if (cost[name] === null || low === null || high === null || low[name] === high[name]) return amountWords(cost[name]);
  return intervalWords(cost[name], Math.min(low[name], high[name]), Math.max(low[name], high[name]), amountWords);
}

/** The choice in one sentence, and how it differs from the plan. */
function sentenceOf(result, plan, budget = null) {
  if (!result.feasible) return result.reason;
  const { design, dead } = result;
  const run = design.steps === null ? "" : `, ${wholeWords(design.steps)} steps`;
  const start = `G = ${design.group_size}, ${wholeWords(design.prompts_per_step)} prompts a step${run}: `;
  const deadWords = `${rateWords(dead.value)} of groups dead ${limitsWords(dead.low, dead.high, rateWords)}`;
  if (result.refill !== null) {
    const { prompts, mixed_groups: held, max_rounds: cap, gen_batch_size: batch } = result.refill;
    const within = cap === null ? "" : ` and at most ${wholeWords(cap)} round${cap === 1 ? "" : "s"}`;
    const drawn = `${start}${deadWords}; a refill in batches of ${wholeWords(batch)}${within} draws ${countWords(prompts, fewWords)} prompts`;
    const short = design.prompts_per_step - held.value >= 0.05;
    const holds = short
      ? `, and a step holds ${meanWords({ mean: held.value, mean_low: held.low, mean_high: held.high })} mixed groups of the ${wholeWords(design.prompts_per_step)} wanted`
      : " for a step of mixed groups alone";
    return `${drawn}${holds}.${overWords(result, budget)}`;
  }
  const mean = result.effective_batch.mixed_groups.mean;
  const gap = plan.feasible ? differenceWords(mean, plan.effective_batch.mixed_groups.mean, fewWords) : "";
  const beside = gap === "" ? "" : gap === "same" ? ` (as ${startName()})` : ` (${gap} beside ${startName()})`;
  return `${start}${deadWords}, ${fewWords(mean)} mixed groups a step${beside}.`;
}

/** Where the batches of a refill draw more than the budget, which a plan spends on prompts drawn one at a time. */
function overWords(result, budget) {
  const spent = result.cost_in_batches.rollout_equivalents;
  if (budget === null || spent <= 1.005 * budget) return "";
  return ` That is ${Math.round(100 * (spent / budget - 1))} % over the budget, which pays for prompts drawn one by one.`;
}

/** What the choice stands beside: the plan, or an example where there is none. */
function startName() {
  return document.getElementById("what-if").dataset.start;
}

/** Fill the table. */
function showOutcome(body, result, plan, kappas) {
  body.replaceChildren();
  if (!result.feasible) return;
  for (const [name, words, number, form, when] of outcomeRows(kappas)) {
    if (when && !when(result)) continue;
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    const cells = [
      words(result),
      plan.feasible ? words(plan) : "not feasible",
      number && plan.feasible ? differenceWords(number(result), number(plan), form).replace("same", "") : "",
    ];
    row.append(head, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    body.append(row);
  }
}
