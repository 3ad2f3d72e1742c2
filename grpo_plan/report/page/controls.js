// The what-if form: fields to a choice and back, the choice in the address, and everything that follows it.

const FIELDS = { prompts: "prompts_per_step", steps: "steps", budget: "budget_rollouts" };
const GIVEN = {
  "steps-budget": ["steps", "budget"],
  "prompts-steps": ["prompts", "steps"],
  "prompts-budget": ["prompts", "budget"],
  prompts: ["prompts"],
};
const SHORT = { preset: "preset", g: "group_size", prompts: "prompts_per_step", steps: "steps", budget: "budget_rollouts", mult: "batch_multiplier", gen: "gen_batch_size", cap: "max_rounds", kappa: "kappa" };
const SLIDER_STEPS = 1000;

/** Start the form; does nothing where the report has no tables. */
function startWhatIf(whatIf) {
  const form = document.getElementById("choice-form");
  if (!form || !whatIf) return null;
  const at = (id) => document.getElementById(id);
  const start = whatIf.start;
  const last = {}; // numbers of fields that are not in use now, by field
  let choice = { ...start };
  let result = null;
  let section = "";
  let drawAll = () => {};
  let refused = false; // an address that this report cannot make

  const sizes = () => whatIf.presets[choice.preset].group_sizes;
  const range = (field) => ({ prompts: whatIf.ranges.prompts_per_step, steps: whatIf.ranges.steps, budget: whatIf.ranges.budget_rollouts, kappa: whatIf.ranges.kappa, multiplier: whatIf.ranges.batch_multiplier, rounds: whatIf.ranges.max_rounds })[field];
  const sliderRange = (field) => (field === "budget" ? budgetSpan() : [range(field)[0] > 0 ? range(field)[0] : 0.01, range(field)[1]]);

  function budgetSpan() {
    const middle = start.budget_rollouts || last.budget || 1e6;
    return [Math.max(1, middle / 100), Math.min(range("budget")[1], middle * 100)];
  }

  function fillSizes() {
    const box = at("size");
    box.replaceChildren(...sizes().map((size) => new Option(String(size), String(size))));
    at("size-slider").max = String(sizes().length - 1);
  }

  /** Show a choice in the fields. */
  function show() {
    if (at("preset")) at("preset").value = String(choice.preset);
    fillSizes();
    at("size").value = String(choice.group_size);
    at("size-slider").value = String(sizes().indexOf(choice.group_size));
    at("size-slider").setAttribute("aria-valuetext", `G = ${choice.group_size}`);
    const given = Object.keys(FIELDS).filter((field) => choice[FIELDS[field]] !== null);
    at("fixed").value = Object.keys(GIVEN).find((name) => sameList([...GIVEN[name]].sort(), [...given].sort()));
    for (const field of Object.keys(FIELDS)) {
      const used = given.includes(field);
      at(`${field}-row`).hidden = !used;
      if (used) put(field, choice[FIELDS[field]]);
    }
    const one = choice.kappa !== null;
    at("kappa-one").checked = one;
    at("kappa").disabled = at("kappa-slider").disabled = !one;
    put("kappa", one ? choice.kappa : last.kappa);
    at("refill-on").checked = choice.refill;
    at("multiplier").disabled = at("rounds").disabled = !choice.refill;
    const multiplier = choice.gen_batch_size !== null && choice.prompts_per_step !== null ? choice.gen_batch_size / choice.prompts_per_step : choice.batch_multiplier;
    at("multiplier").value = multiplier === null ? "" : String(multiplier);
    at("rounds").value = choice.max_rounds === null ? "" : String(choice.max_rounds);
  }

  function put(field, value) {
    const box = at(field);
    const [low, high] = range(field);
    box.min = String(low);
    box.max = String(high);
    if (document.activeElement !== box || Number(box.value) !== value) box.value = String(value);
    const slider = at(`${field}-slider`);
    if (!slider) return;
    const [from, to] = sliderRange(field);
    if (document.activeElement !== slider) slider.value = String(Math.round((SLIDER_STEPS * Math.log(Math.max(value, from) / from)) / Math.log(to / from)));
    slider.setAttribute("aria-valuetext", amountWords(value));
  }

  /** The number that a slider stands for, rounded to three digits (a whole one but for kappa). */
  function slid(field) {
    const [from, to] = sliderRange(field);
    const value = from * (to / from) ** (Number(at(`${field}-slider`).value) / SLIDER_STEPS);
    const rounded = Number(value.toPrecision(3));
    return Math.min(Math.max(field === "kappa" ? rounded : Math.round(rounded), range(field)[0]), range(field)[1]);
  }

  /** A field's number, or a sentence that says what is wrong with it. */
  function read(field, label, whole) {
    const box = at(field);
    const value = Number(box.value);
    const [low, high] = range(field);
    const wrong = box.value.trim() === "" || !Number.isFinite(value) || value < low || value > high || (whole && !Number.isInteger(value));
    const words = wrong ? `${label} must be a ${whole ? "whole " : ""}number from ${amountWords(low)} to ${amountWords(high)}.` : "";
    box.setCustomValidity(words);
    if (wrong) box.setAttribute("aria-invalid", "true");
    else box.removeAttribute("aria-invalid");
    return wrong ? words : value;
  }

  /** The choice that the fields hold, or a sentence that says what is wrong. */
  function readAll() {
    const found = { ...choice, prompts_per_step: null, steps: null, budget_rollouts: null };
    const problems = [];
    const take = (field, label, whole) => {
      const value = read(field, label, whole);
      if (typeof value === "string") problems.push(value);
      else last[field] = value;
      return typeof value === "string" ? null : value;
    };
    if (at("preset")) found.preset = Number(at("preset").value);
    const known = whatIf.presets[found.preset].group_sizes;
    const size = Number(at("size").value);
    found.group_size = known.includes(size) ? size : known.reduce((best, each) => (Math.abs(each - size) < Math.abs(best - size) ? each : best));
    const labels = { prompts: "Prompts a step", steps: "Steps", budget: "The budget" };
    for (const field of GIVEN[at("fixed").value]) found[FIELDS[field]] = take(field, labels[field], true);
    found.kappa = at("kappa-one").checked ? take("kappa", "kappa", false) : null;
    found.refill = at("refill-on").checked;
    const sameBatch = found.refill && start.gen_batch_size !== null && at("multiplier").value === String(start.gen_batch_size / start.prompts_per_step);
    found.gen_batch_size = sameBatch ? start.gen_batch_size : null;
    found.batch_multiplier = found.refill && at("multiplier").value !== "" && !sameBatch ? take("multiplier", "The batch multiplier", false) : null;
    found.max_rounds = found.refill && at("rounds").value !== "" ? take("rounds", "The cap on rounds", true) : null;
    return problems.length ? problems[0] : found;
  }

  function changed() {
    const found = readAll();
    if (typeof found === "string") {
      at("told").textContent = `${found} Until then the table and the commands below are those of the choice before.`;
      stale(true);
      return;
    }
    choice = found;
    update();
  }

  /** What follows the choice is not of what the fields hold: say so, and let no one copy it. */
  function stale(isStale) {
    form.querySelector(".outcome").classList.toggle("stale", isStale);
    for (const button of form.querySelectorAll("button.copy")) button.disabled = isStale;
  }

  const isPlan = () => Object.keys(start).every((name) => choice[name] === start[name]);

  /** Compute and show everything that follows the choice. */
  function update() {
    show();
    stale(false);
    for (const box of form.querySelectorAll("[aria-invalid]")) {
      box.setCustomValidity("");
      box.removeAttribute("aria-invalid");
    }
    result = recompute(whatIf, choice);
    const plan = recompute(whatIf, { ...start, kappa: choice.kappa });
    showOutcome(at("outcome").tBodies[0], result, plan, kappasOf(whatIf, choice));
    at("told").textContent = isPlan() && result.feasible ? `${startName().replace("the", "The")}: ${sentenceOf(result, { feasible: false }, choice.budget_rollouts)}` : sentenceOf(result, plan, choice.budget_rollouts);
    if (refused) at("told").textContent = `The address holds a choice that this report cannot make: here is ${startName()}. ${at("told").textContent}`;
    refused = false;
    at("no-plan").hidden = !result.feasible || result.progress.some((row) => row.ratio !== null);
    at("no-limits").hidden = !at("outcome").textContent.includes("*");
    at("back").disabled = isPlan();
    drawAll = () => {
      at("spread-picture").hidden = false;
      at("spread-picture").hidden = !drawSpread(at("spread"), spreadOf(result), isPlan() ? null : spreadOf(plan));
    };
    drawAll();
    at("command").firstChild.textContent = result.commands.plan;
    at("design-command").firstChild.textContent = result.commands.design;
    at("refill-command-box").hidden = result.commands.refill === null;
    at("refill-command").firstChild.textContent = result.commands.refill || "";
    markPictures(result, sizes(), isPlan(), choice.kappa !== null);
    writeAddress();
  }

  // The address: #section;g=8&prompts=500... Nothing but the section where the choice is the plan.
  function writeAddress() {
    const parts = [];
    if (!isPlan()) {
      for (const [name, key] of Object.entries(SHORT)) {
        if (choice[key] !== null && !(name === "preset" && choice.preset === 0)) parts.push(`${name}=${choice[key]}`);
      }
      if (choice.refill) parts.push("refill=1");
    }
    const address = `#${section}${parts.length ? `;${parts.join("&")}` : ""}`;
    if (address === (location.hash || "#")) return;
    try {
      history.replaceState(null, "", address);
    } catch {
      location.replace(address);
    }
  }

  /** The choice of the address; the plan where it holds none, or one that this report cannot make. */
  function readAddress() {
    const [where, ...rest] = location.hash.slice(1).split(";");
    section = where;
    if (!rest.length) return { ...start };
    const found = { ...start, prompts_per_step: null, steps: null, budget_rollouts: null, batch_multiplier: null, gen_batch_size: null, max_rounds: null, kappa: null, preset: 0, refill: false };
    for (const pair of rest.join(";").split("&")) {
      const [name, value] = pair.split("=");
      if (name === "refill") found.refill = value === "1";
      else if (Object.prototype.hasOwnProperty.call(SHORT, name)) found[SHORT[name]] = Number(value);
    }
    refused = !valid(found);
    return refused ? { ...start } : found;
  }

  function valid(found) {
    const whole = (value, [low, high]) => value === null || (Number.isInteger(value) && value >= low && value <= high);
    const given = Object.keys(FIELDS).filter((field) => found[FIELDS[field]] !== null);
    return (
      Boolean(whatIf.presets[found.preset]) &&
      whatIf.presets[found.preset].group_sizes.includes(found.group_size) &&
      Object.values(GIVEN).some((names) => sameList([...names].sort(), [...given].sort())) &&
      whole(found.prompts_per_step, range("prompts")) &&
      whole(found.steps, range("steps")) &&
      whole(found.budget_rollouts, range("budget")) &&
      whole(found.max_rounds, range("rounds")) &&
      whole(found.gen_batch_size, [1, Number.MAX_SAFE_INTEGER]) &&
      [["kappa", "kappa"], ["batch_multiplier", "multiplier"]].every(([name, field]) => found[name] === null || (found[name] >= range(field)[0] && found[name] <= range(field)[1]))
    );
  }

  function usedBefore() {
    const made = recompute(whatIf, start).design;
    last.prompts = start.prompts_per_step || (made ? made.prompts_per_step : 128);
    last.steps = start.steps || (made && made.steps) || 100;
    last.budget = start.budget_rollouts || last.prompts * last.steps * start.group_size;
    last.kappa = start.kappa || whatIf.kappa.value || Number(Math.sqrt(whatIf.kappa.low * whatIf.kappa.high).toPrecision(3));
  }

  const { low, high } = whatIf.kappa;
  at("kappa-range").textContent = low === high ? `else ${amountWords(low)}` : `else ${amountWords(low)} to ${amountWords(high)}`;
  usedBefore();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => {
    if (event.target.id === "fixed") {
      for (const field of GIVEN[event.target.value]) put(field, result && result.feasible && result.design[FIELDS[field]] ? result.design[FIELDS[field]] : last[field]);
    }
    changed();
  });
  form.addEventListener("input", (event) => {
    const id = event.target.id;
    if (id === "size-slider") at("size").value = String(sizes()[Number(event.target.value)]);
    else if (id.endsWith("-slider")) at(id.replace("-slider", "")).value = String(slid(id.replace("-slider", "")));
    else if (event.target.type !== "number") return;
    changed();
  });
  at("back").addEventListener("click", () => {
    choice = { ...start };
    update();
  });
  window.addEventListener("hashchange", () => {
    choice = readAddress();
    update();
    goTo(section);
  });
  window.addEventListener("resize", () => drawAll());
  for (const link of document.querySelectorAll("nav a, a.skip")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      section = link.hash.slice(1);
      writeAddress();
      goTo(section);
    });
  }
  form.hidden = false;
  choice = readAddress();
  update();
  if (section) goTo(section);
  return { result: () => result, choice: () => ({ ...choice }) };
}

/** Scroll to a section and put the focus there, so that Tab goes on from it. */
function goTo(id) {
  const place = id ? document.getElementById(id) : null;
  if (!place) return;
  place.setAttribute("tabindex", "-1");
  place.focus({ preventScroll: true });
  place.scrollIntoView();
}

function sameList(a, b) {
  return a.length === b.length && a.every((item, i) => item === b[i]);
}
