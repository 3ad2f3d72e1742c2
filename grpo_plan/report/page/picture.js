// What moves in the pictures: the marks of a choice, the curve of its kappa, and the spread of mixed groups.

const SVG = "http://www.w3.org/2000/svg";
const SPREAD = { left: 8, top: 12, bottom: 138, height: 184, widest: 480, narrowest: 280 };

function svgElement(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A number to its place, from what the picture says of its axis. */
function scaleOf(words) {
  const [kind, ...numbers] = words.split(" ");
  const [low, high, start, stop] = numbers.map(Number);
  return (value) => {
    const inside = Math.min(Math.max(value, low), high);
    const share = kind === "log" ? Math.log(inside / low) / Math.log(high / low) : (inside - low) / (high - low);
    return start + share * (stop - start);
  };
}

/** Place the marks of a choice; none where it is the plan itself. */
function markPictures(result, sizes, isPlan, kappaChosen) {
  const shown = result.feasible && !isPlan;
  for (const picture of document.querySelectorAll("svg[data-follows]")) {
    const x = scaleOf(picture.dataset.x);
    const y = scaleOf(picture.dataset.y);
    const mark = picture.querySelector("g.choice");
    const value = shown ? followed(picture.dataset.follows, result) : null;
    mark.setAttribute("display", value === null ? "none" : "inline");
    if (value !== null) {
      mark.setAttribute("transform", `translate(${x(result.design.group_size)} 0)`);
      mark.querySelector(".choice-mark").setAttribute("transform", `translate(0 ${y(value)})`);
    }
    const curve = picture.querySelector(".chosen-kappa");
    if (curve) {
      const shares = result.feasible && kappaChosen ? result.curves[0] : null;
      curve.setAttribute("display", shares ? "inline" : "none");
      if (shares) curve.setAttribute("d", `M${shares.map((share, i) => `${x(sizes[i])} ${y(share)}`).join("L")}`);
    }
    for (const line of picture.closest("figure").querySelectorAll(".keys .live")) {
      line.hidden = line.querySelector(".chosen-kappa") ? !(result.feasible && kappaChosen) : !shown;
    }
  }
}

function followed(name, result) {
  if (name === "dead") return result.dead.value;
  if (name === "mixed") return result.refill === null ? result.effective_batch.mixed_groups.mean : null;
  return result.progress.length && result.progress[0].ratio !== null ? result.progress[0].ratio : null;
}

/** Chances of each number of mixed groups of a step, the likely ones alone; null where all are mixed. */
function spreadOf(result) {
  if (!result.feasible || result.refill !== null) return null;
  const trials = result.design.prompts_per_step;
  const { lowest, weights } = binomialWeights(trials, result.dead.value);
  const most = weights.reduce((best, weight) => Math.max(best, weight), 0);
  const points = [];
  weights.forEach((weight, i) => {
    if (weight > 1e-4 * most) points.push([trials - lowest - i, weight]);
  });
  return thinned(points.reverse());
}

/** At most so many points of a law, evenly spread: more are not seen. */
function thinned(points, most = 1200) {
  const every = Math.ceil(points.length / most);
  return every < 2 ? points : points.filter((_, i) => i % every === 0);
}

/** The law of mixed groups, of the choice as steps filled, of the plan as a dashed line; heights to the same area. */
function drawSpread(picture, mine, plan) {
  for (const old of picture.querySelectorAll(".drawn")) old.remove();
  if (mine === null || mine.length < 2) return false;
  const laws = [mine, plan].filter((law) => law !== null);
  const width = Math.min(SPREAD.widest, Math.max(SPREAD.narrowest, picture.parentElement.clientWidth || SPREAD.widest));
  picture.setAttribute("viewBox", `0 0 ${width} ${SPREAD.height}`);
  const right = width - SPREAD.left;
  const all = laws.flat();
  const [low, high] = all.reduce(([a, b], point) => [Math.min(a, point[0] - 0.5), Math.max(b, point[0] + 0.5)], [Infinity, -Infinity]);
  const most = all.reduce((best, point) => Math.max(best, point[1]), 0);
  const x = (value) => SPREAD.left + ((value - low) / (high - low)) * (right - SPREAD.left);
  const y = (value) => SPREAD.bottom - (value / most) * (SPREAD.bottom - SPREAD.top);
  const outline = (law) => {
    const parts = [`M${x(law[0][0] - 0.5)} ${SPREAD.bottom}`];
    for (const [count, chance] of law) parts.push(`L${x(count - 0.5)} ${y(chance)}L${x(count + 0.5)} ${y(chance)}`);
    return `${parts.join("")}L${x(law[law.length - 1][0] + 0.5)} ${SPREAD.bottom}`;
  };
  picture.append(svgElement("path", { d: `${outline(mine)}Z`, class: "spread-mine drawn" }));
  if (plan !== null) picture.append(svgElement("path", { d: outline(plan), class: "spread-plan drawn" }));
  picture.append(svgElement("path", { d: `M${SPREAD.left} ${SPREAD.bottom}H${right}`, class: "axis drawn" }));
  let last = -Infinity;
  for (const tick of roundTicks(low, high, 6)) {
    const words = grouped(tick);
    if (x(tick) - last < 8 * words.length + 8 || x(tick) - 4 * words.length < 0 || x(tick) + 4 * words.length > width) continue;
    last = x(tick);
    picture.append(svgElement("path", { d: `M${last} ${SPREAD.bottom}v5`, class: "axis drawn" }));
    picture.append(svgElement("text", { x: last, y: SPREAD.bottom + 18, class: "tick middle drawn" }, words));
  }
  picture.append(svgElement("text", { x: right, y: 179, class: "name end drawn" }, "mixed groups of a step"));
  return true;
}

/** Whole round numbers from low to high, at most about `most`. */
function roundTicks(low, high, most) {
  const rough = Math.max(1, (high - low) / most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9)));
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return ticks;
}
