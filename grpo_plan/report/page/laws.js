// Binomial law and waiting time (theory.md, eq. 21, 52, 53): the twins of grpo_plan/report/laws.py.

const TAIL_SDS = 13;
const TAIL_TERMS = 60;
const NEGLIGIBLE = 1e-18;
const FEW_ROUNDS = 200;
const FREQUENCIES = 65536;
const TIE = 1 + 1e-12;
// log n! - log(sqrt(2 pi n) (n / e)**n) for n = 1 to 15; the first place is never asked for.
const STIRLING = (() => {
  const rest = [0];
  let factorial = 1;
  for (let n = 1; n < 16; n += 1) {
    factorial *= n;
    rest.push(Math.log(factorial) - (n + 0.5) * Math.log(n) + n - 0.5 * Math.log(2 * Math.PI));
  }
  return rest;
})();

/** Law of the dead groups among so many, by exact ratios from its mode: the fewest of them, and the chances. */
function binomialWeights(trials, dead) {
  const alive = 1 - dead;
  const mode = Math.min(Math.floor((trials + 1) * dead), trials);
  const half = Math.min(trials, Math.floor(TAIL_SDS * Math.sqrt(trials * (dead * alive))) + TAIL_TERMS);
  const lowest = Math.max(0, mode - half);
  const highest = Math.min(trials, mode + half);
  const weights = new Float64Array(highest - lowest + 1);
  weights[mode - lowest] = 1;
  for (let k = mode + 1; k <= highest; k += 1) {
    weights[k - lowest] = weights[k - 1 - lowest] * (alive > 0 ? ((trials - k + 1) * dead) / (k * alive) : 0);
  }
  for (let k = mode - 1; k >= lowest; k -= 1) {
    weights[k - lowest] = weights[k + 1 - lowest] * (dead > 0 ? ((k + 1) * alive) / ((trials - k) * dead) : 0);
  }
  const total = sumOf(weights);
  return { lowest, weights: weights.map((weight) => weight / total) };
}

/** Sum with its rounding carried along (Neumaier). */
function sumOf(values) {
  let total = 0;
  let lost = 0;
  for (const value of values) {
    const next = total + value;
    lost += Math.abs(total) >= Math.abs(value) ? total - next + value : value - next + total;
    total = next;
  }
  return total + lost;
}

/** Quantiles of the mixed groups among `trials`, each dead with chance `dead`. */
function binomialQuantiles(trials, dead, shares) {
  const { lowest, weights } = binomialWeights(trials, dead);
  let reached = 0;
  let k = lowest + weights.length - 1; // few mixed groups first: many dead ones
  return shares.map((share) => {
    const wanted = share * (1 - 1e-12);
    while (k > lowest && reached + weights[k - lowest] < wanted) {
      reached += weights[k - lowest];
      k -= 1;
    }
    return trials - k;
  });
}

/** `log n! - log(sqrt(2 pi n) (n / e)**n)`. */
function stirlingRest(n) {
  if (n < 16) return STIRLING[n];
  const square = n * n;
  return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n;
}

/** `x log(x / mean) + mean - x` without cancellation near `x = mean`. */
function deviance(x, mean) {
  const gap = x - mean;
  if (Math.abs(gap) >= 0.1 * (x + mean)) return x * Math.log(x / mean) - gap;
  const share = gap / (x + mean);
  let total = gap * share;
  let term = 2 * x * share;
  for (let step = 1; ; step += 1) {
    term *= share * share;
    const following = total + term / (2 * step + 1);
    if (following === total) return total;
    total = following;
  }
}

/** Chance of exactly this many successes (Loader, 2000). */
function binomialPmf(n, k, success, failure) {
  if (k === 0) return Math.exp(n * (failure < 0.5 ? Math.log(failure) : Math.log1p(-success)));
  if (k === n) return Math.exp(n * (success < 0.5 ? Math.log(success) : Math.log1p(-failure)));
  let exponent = stirlingRest(n) - stirlingRest(k) - stirlingRest(n - k);
  exponent -= deviance(k, n * success) + deviance(n - k, n * failure);
  return Math.exp(exponent - 0.5 * (Math.log(2 * Math.PI * k) + Math.log1p(-k / n)));
}

/** Chance of fewer than `wanted` successes, to full relative precision where it is small. */
function chanceOfFewer(n, wanted, success, failure) {
  if (wanted <= 0) return 0;
  if (wanted > n || success === 0) return 1;
  if (failure === 0) return 0;
  let total = 1;
  let term = 1;
  if (wanted - 1 < n * success) {
    for (let k = wanted - 1; k > 0 && term > NEGLIGIBLE * total; k -= 1) {
      term *= (k * failure) / ((n - k + 1) * success);
      total += term;
    }
    return Math.min(binomialPmf(n, wanted - 1, success, failure) * total, 1);
  }
  for (let k = wanted; k < n && term > NEGLIGIBLE * total; k += 1) {
    term *= ((n - k) * success) / ((k + 1) * failure);
    total += term;
  }
  return Math.max(1 - binomialPmf(n, wanted, success, failure) * total, 0);
}

/** Prompts drawn at random until `wanted` groups are mixed, each dead with chance `dead` below 1. */
class Waiting {
  constructor(wanted, dead) {
    this.wanted = wanted;
    this.dead = dead;
    this.mean = wanted / (1 - dead);
    this.variance = (wanted * dead) / (1 - dead) ** 2;
  }

  /** Chance that so many prompts do not suffice. */
  beyond(prompts) {
    return chanceOfFewer(prompts, this.wanted, 1 - this.dead, this.dead);
  }

  /** Fewest prompts that do not suffice with chance `tail` at most. */
  fewest(tail) {
    if (this.dead === 0) return this.wanted;
    const spread = Math.floor(Math.sqrt(this.variance)) + 1;
    let low = this.wanted - 1;
    let high = Math.max(this.wanted, Math.floor(this.mean));
    let step = spread;
    while (this.beyond(high) > tail * TIE) {
      [low, high, step] = [high, high + step, 2 * step];
    }
    step = spread;
    while (high - step > low && this.beyond(high - step) <= tail * TIE) {
      [high, step] = [high - step, 2 * step];
    }
    low = Math.max(low, high - step);
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.beyond(middle) <= tail * TIE) high = middle;
      else low = middle;
    }
    return high;
  }

  /** Mean and variance in rounds of `size` prompts. */
  rounds(size) {
    if (this.dead === 0) return [Math.ceil(this.wanted / size), 0];
    if (this.wanted === 1) {
      const stay = Math.exp(size * Math.log(this.dead));
      const leave = -Math.expm1(size * Math.log(this.dead));
      return [1 / leave, stay / leave ** 2];
    }
    return 26 * Math.sqrt(this.variance) <= FEW_ROUNDS * size ? this.summed(size) : this.byFrequency(size);
  }

  /** Mean and variance of the rounds of a step that gives up after `cap` of them (eq. 139). */
  within(size, cap) {
    if (this.beyond(cap * size) <= NEGLIGIBLE) return this.rounds(size);
    let more = 0;
    let second = 0;
    for (let r = 0; r < cap; r += 1) {
      const chance = r === 0 ? 1 : this.beyond(r * size);
      more += chance;
      second += (2 * r + 1) * chance;
    }
    return [more, Math.max(0, second - more * more)];
  }

  /** Mean of the lesser of N and the mixed groups among so many prompts (eq. 139). */
  held(prompts) {
    const success = 1 - this.dead;
    const below = this.wanted > 1 ? chanceOfFewer(prompts - 1, this.wanted - 1, success, this.dead) : 0;
    return this.wanted * (1 - this.beyond(prompts)) + prompts * success * below;
  }

  summed(size) {
    let start = Math.max(0, Math.floor((this.mean - 14 * Math.sqrt(this.variance)) / size) - 1);
    while (start > 0 && this.beyond(start * size) < 1) {
      start = Math.max(0, start - 1 - Math.floor(start / 8));
    }
    let more = 0;
    let second = 0;
    let chance = this.beyond(start * size);
    for (let r = start; chance > NEGLIGIBLE; ) {
      more += chance;
      second += (2 * (r - start) + 1) * chance;
      r += 1;
      chance = this.beyond(r * size);
    }
    return [start + more, Math.max(0, second - more * more)];
  }

  byFrequency(size) {
    const alive = 1 - this.dead;
    let part = (size - 1) / (2 * size);
    let square = ((size - 1) * (2 * size - 1)) / (6 * size * size);
    let covariance = 0;
    const half = Math.floor((size - 1) / 2);
    const last = Math.min(half, FREQUENCIES);
    const middle = size % 2 === 0 && half < FREQUENCIES ? 1 : 0;
    for (let j = 1; j <= last + middle; j += 1) {
      const weight = j > last ? 1 : 2;
      const angle = j <= last ? (Math.PI * j) / size : Math.PI / 2;
      const away = [2 * Math.sin(angle) ** 2, -Math.sin(2 * angle)]; // 1 - omega
      const omega = [1 - away[0], -away[1]];
      const left = [alive + this.dead * away[0], this.dead * away[1]]; // 1 - D omega
      const wave = power(over([alive * omega[0], alive * omega[1]], left), this.wanted);
      const unit = over([1, 0], [size * away[0], size * away[1]]); // 1 / (size (1 - omega))
      const first = times([-wave[0], -wave[1]], unit);
      part += weight * first[0];
      const doubled = times([2 * omega[0], 2 * omega[1]], times(unit, unit));
      square += weight * times(wave, [-unit[0] - doubled[0], -unit[1] - doubled[1]])[0];
      const shift = over([this.wanted, 0], left);
      covariance += weight * times(first, [shift[0] - this.mean, shift[1]])[0];
    }
    const variance = this.variance / size ** 2 + (2 * covariance) / size + square - part ** 2;
    return [this.mean / size + part, variance];
  }
}

// Complex numbers as [real, imaginary].

function times(a, b) {
  return [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]];
}

function over(a, b) {
  const square = b[0] * b[0] + b[1] * b[1];
  return [(a[0] * b[0] + a[1] * b[1]) / square, (a[1] * b[0] - a[0] * b[1]) / square];
}

function power(a, exponent) {
  const size = Math.exp(exponent * Math.log(Math.hypot(a[0], a[1])));
  const angle = exponent * Math.atan2(a[1], a[0]);
  return [size * Math.cos(angle), size * Math.sin(angle)];
}
