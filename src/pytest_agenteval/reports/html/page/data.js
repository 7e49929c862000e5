// What the file holds: the index, read at once, and trials in compressed chunks, read when they are opened.

const INDEX = JSON.parse(document.getElementById('index').textContent);
const {trials: TRIALS, tasks: TASKS, suites: SUITES, runs: RUNS, compared: COMPARED} = INDEX;
const NEWEST = RUNS.length - 1;
const MOST_CHUNKS = 4;
const chunks = new Map();

TASKS.forEach((task, place) => {
  task.place = place;
  task.label = SUITES[task.suite].label;
  for (const trial of [...task.old, ...task.trials]) TRIALS[trial].row = task;
});

// An element is there before its text is: only what follows it tells that the parser has passed its end.
async function chunkElement(number) {
  for (;;) {
    const element = document.getElementById(`c${number}`);
    if (document.readyState !== 'loading' || element?.nextElementSibling) return element;
    await new Promise((later) => setTimeout(later, 20));
  }
}

async function readChunk(number) {
  const element = await chunkElement(number);
  if (!element) throw new Error('its part of the file is not there');
  if (!self.DecompressionStream) throw new Error('this browser is too old: Chrome 80, Firefox 113 and Safari 16.4 can');
  const bytes = Uint8Array.from(atob(element.textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}

function chunk(number) {
  const known = chunks.get(number) ?? readChunk(number);
  chunks.delete(number);
  chunks.set(number, known);
  known.catch(() => chunks.delete(number));
  if (chunks.size > MOST_CHUNKS) chunks.delete(chunks.keys().next().value);
  return known;
}

async function readTrial(place) {
  const {chunk: number, at} = TRIALS[place];
  return number === null ? null : (await chunk(number))[at];
}

// A name is that of the newest run's trial, unless another run is asked for.
function findTrial(name, run) {
  let best = -1;
  TRIALS.forEach((trial, place) => {
    if (trial.name === name && (run === null ? best < 0 || trial.run > TRIALS[best].run : trial.run === run)) best = place;
  });
  return best;
}

function trialHash(place) {
  const {name, run} = TRIALS[place];
  return `#/t/${encodeURIComponent(name)}${findTrial(name, null) === place ? '' : `?run=${run}`}`;
}

// ---- which rows are shown, and in which order

// Tables that an address looks into have no prototype: it may ask for the order `constructor`.

const FILTERS = {
  __proto__: null,
  better: (task) => task.change > 1e-9,
  worse: (task) => task.change !== null && task.change < -1e-9,
};
const TRIAL_FILTERS = {
  __proto__: null,
  undecided: (trial) => trial.undecided,
  disagree: (trial) => trial.disagree,
  // For the one who reads, a task of a suite where misses fail has missed all the same.
  missed: (trial) => trial.ending === 'missed' || trial.ending === 'failed',
};
const trialMatches = (trial, name) => (TRIAL_FILTERS[name] ? TRIAL_FILTERS[name](trial) : trial.ending === name);
const taskMatches = (task, name) =>
  FILTERS[name] ? FILTERS[name](task) : task.trials.some((place) => trialMatches(TRIALS[place], name));

function haystack(task) {
  task.haystack ??= [task.task, task.bucket, task.label, task.reason, task.file, ...task.trials.map((place) => TRIALS[place].name)]
    .join('\n').toLowerCase();
  return task.haystack;
}

// A sum of which any part is unknown is unknown.
const total = (task, key) => task.trials.reduce((sum, place) => (sum === null || TRIALS[place][key] === null ? null : sum + TRIALS[place][key]), 0);
function spread(task) {
  const scores = task.trials.map((place) => TRIALS[place].score).filter((score) => score !== null);
  return scores.length > 1 ? Math.max(...scores) - Math.min(...scores) : null;
}

// Each order: its words, what is compared, which way it goes first, and how its column shows the value.
const ORDERS = {
  __proto__: null,
  change: {words: 'worst change', value: (task) => task.change, way: 1},
  score: {words: 'lowest score', value: (task) => task.score, way: 1},
  task: {words: 'task', value: (task) => task.task, way: 1},
  bucket: {words: 'bucket', value: (task) => `${task.label}\n${task.bucket}`, way: 1},
  spread: {words: 'widest spread', value: spread, way: -1, column: 'Spread', text: figure},
  tokens: {words: 'most tokens', value: (task) => total(task, 'tokens'), way: -1, column: 'Tokens', text: short},
  cost: {words: 'highest cost', value: (task) => total(task, 'usd'), way: -1, column: 'Cost', text: money},
  time: {words: 'longest', value: (task) => total(task, 'seconds'), way: -1, column: 'Time', text: duration},
};
const DEFAULT_ORDER = COMPARED ? 'change' : 'score';

function compareBy(order) {
  const backwards = order.startsWith('-'), {value, way} = ORDERS[backwards ? order.slice(1) : order] ?? ORDERS[DEFAULT_ORDER];
  const direction = backwards ? -way : way;
  return (a, b) => {
    const x = value(a), y = value(b);
    // What has no value comes last, whichever way the rest goes.
    if (x === null || y === null) return (x === null) - (y === null) || a.place - b.place;
    return (x < y ? -direction : x > y ? direction : 0) || (a.score ?? 2) - (b.score ?? 2) || a.place - b.place;
  };
}

function selectTasks({show, bucket, suite, q, sort}) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return TASKS.filter((task) =>
    (!show.length || show.some((name) => taskMatches(task, name)))
    && (bucket === null || task.bucket === bucket)
    && (suite === null || task.label === suite)
    && words.every((word) => haystack(task).includes(word)),
  ).sort(compareBy(sort || DEFAULT_ORDER));
}

// Rows of one bucket together, buckets in the order of their first row: the worst first.
function groupRows(tasks) {
  const groups = new Map();
  for (const task of tasks) {
    const key = `${task.label}\n${task.bucket}`;
    if (!groups.has(key)) groups.set(key, [{group: task.bucket, label: task.label, key}]);
    groups.get(key).push(task);
  }
  return [...groups.values()].flatMap((rows) => [{...rows[0], tasks: rows.length - 1}, ...rows.slice(1)]);
}

// The trials that j and k walk through: those of the rows shown, and of these the ones the filter is about.
function selectTrials(query) {
  return selectTasks(query).flatMap((task) => {
    const whole = !query.show.length || query.show.some((name) => FILTERS[name]?.(task));
    return whole ? task.trials : task.trials.filter((place) => query.show.some((name) => trialMatches(TRIALS[place], name)));
  });
}

function worstTrial(task) {
  const worth = (place) => (TRIALS[place].ending === 'errored' ? -1 : TRIALS[place].score ?? 2);
  return task.trials.reduce((worst, place) => (worth(place) < worth(worst) ? place : worst), task.trials[0]);
}

// The old run's trial of the same repetition or, where there is none, its first.
function oldTrial(place) {
  const {row, repetition} = TRIALS[place];
  if (row.old.includes(place)) return -1;
  return row.old.find((other) => TRIALS[other].repetition === repetition) ?? row.old[0] ?? -1;
}
