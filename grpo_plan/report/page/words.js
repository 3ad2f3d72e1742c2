// Numbers as the page shows them: the twins of grpo_plan/report/page/words.py.

const HUGE = 1e7;

function grouped(value, digits = 0) {
  const [whole, part] = Math.abs(value).toFixed(digits).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
  return value < 0 && /[1-9]/.test(text) ? `-${text}` : text;
}

function rateWords(value) {
  if (value === null) return "unknown";
  return Math.abs(value) > 0 && Math.abs(value) < 0.0005 ? exponentWords(value, 0) : value.toFixed(3);
}

function exponentWords(value, digits) {
  return value.toExponential(digits).replace(/e([+-])(\d)$/, "e$10$2");
}

function chanceWords(value) {
  return value !== null && value >= 0 && value < 1e-9 ? "<1e-9" : rateWords(value);
}

function amountWords(value) {
  if (value === null) return "unknown";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 999.5) return size < 1e-4 ? exponentWords(value, 2) : String(Number(value.toPrecision(3)));
  return size < HUGE ? grouped(value) : value.toExponential(2).replace("e+", "e");
}

function wholeWords(value) {
  return value === null ? "unknown" : grouped(value);
}

function fewWords(value) {
  return value === null ? "unknown" : grouped(value, Math.abs(value) < 99.95 ? 1 : 0);
}

function limitsWords(low, high, form) {
  if (low === null && high === null) return "[limits unknown]";
  return `[${low === null ? "no\u00a0limit" : form(low)},\u00a0${high === null ? "no limit" : form(high)}]`;
}

/** Limits of a mean count, the lower one rounded down. */
function countLimitsWords(low, high) {
  if (low === null) return limitsWords(low, high, fewWords);
  const least = low < 100 ? grouped(Math.floor(10 * low) / 10, 1) : grouped(Math.floor(low));
  return `[${least},\u00a0${high === null ? "no limit" : fewWords(high)}]`;
}

/** `value [low, high]`. */
function intervalWords(value, low, high, form) {
  return `${form(value)} ${limitsWords(low, high, form)}`;
}

/** A difference with its sign; nothing where it rounds to nothing. */
function differenceWords(mine, theirs, form) {
  if (mine === null || theirs === null || mine === undefined || theirs === undefined) return "";
  const gap = mine - theirs;
  const text = form(Math.abs(gap));
  if (!/[1-9]/.test(text.replace(/e.*/, ""))) return "same";
  return gap > 0 ? `+${text}` : `-${text}`;
}
