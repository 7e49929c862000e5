// Which rows are shown, in which order, and which trials they are about. All of it follows a query, which is
// what an address says. Tables that an address looks into have no prototype: it may ask for `constructor`.

const NO_QUERY = {show: [], facets: {__proto__: null}, q: '', text: '', sort: '', group: false, old: '', hide: []};

// ---- what a query can ask for

const CHANGED = {
  __proto__: null,
  better: (task, sides) => sides.some((side) => changeOf(task, side) > 1e-9),
  worse: (task, sides) => sides.some((side) => changeOf(task, side) < -1e-9),
};
const TRIAL_CHIPS = {
  __proto__: null,
  // For the one who reads, a task of a suite where misses fail has missed all the same.
  missed: (trial) => trial.ending === 'missed' || trial.ending === 'failed',
  errored: (trial) => trial.ending === 'errored',
  disagree: (trial) => trial.disagree,
  undecided: (trial) => trial.undecided,
};
const trialMatches = (trial, chip) => (TRIAL_CHIPS[chip] ? TRIAL_CHIPS[chip](trial) : trial.ending === chip);

// What can be filtered by, with the values of a task or of a trial. Several values of one add up, several
// filters narrow: a trial has to fit all that are about trials.
const FACETS = {
  __proto__: null,
  side: {words: 'side', trial: (trial) => [SIDES[trial.side].label]},
  suite: {words: 'suite', task: (task) => [task.label]},
  bucket: {words: 'bucket', task: (task) => [task.bucket]},
  cause: {words: 'why trials missed', trial: (trial) => trial.causes.map((number) => CAUSES[number].key)},
  grader: {words: 'below the threshold of', trial: (trial) => trial.graders.map((number) => INDEX.graders[number])},
  tool: {words: 'tool called', trial: (trial) => trial.tools.map((number) => INDEX.tools[number])},
  ending: {words: 'ending', trial: (trial) => (trial.limit ? [trial.ending, 'limited'] : [trial.ending])},
  tag: {words: 'tag', task: (task) => task.tags},
  split: {words: 'split', task: (task) => (task.split ? [task.split] : [])},
  note: {words: 'note', trial: ({note}) => [note?.looked_at ? 'looked at' : 'not looked at', ...(note?.comment ? ['with a comment'] : [])]},
};
const facetText = (name, value) => (name === 'cause' ? CAUSES.find((cause) => cause.key === value)?.words ?? value : value || `no ${name}`);

const facetQuery = (query, name, values) => ({...query, facets: {...query.facets, [name]: values}});
const toggled = (list, name) => (list.includes(name) ? list.filter((other) => other !== name) : [...list, name]);

// ---- which sides

const sideNumbers = () => SIDES.map((_, number) => number);
function shownSides({hide}) {
  const shown = sideNumbers().filter((number) => !hide.includes(SIDES[number].label));
  return shown.length ? shown : sideNumbers();
}
// Of two sides the old one stands beside the new one, which the counts, the orders and the walk are about.
function mainSides(query) {
  const asked = query.facets.side ?? [], shown = shownSides(query);
  if (asked.length) return shown.filter((number) => asked.includes(SIDES[number].label));
  return isPair() ? [newSide()] : shown;
}
const placesOf = (task, sides) => sides.flatMap((side) => task.sides[side].trials);

// ---- orders

const knownScores = (task, sides) => sides.map((side) => task.sides[side].score).filter((score) => score !== null);
const least = (values) => (values.length ? Math.min(...values) : null);
const range = (values) => (values.length > 1 ? Math.max(...values) - Math.min(...values) : null);
// A sum of which any part is unknown is unknown.
const total = (key) => (task, sides) => placesOf(task, sides).reduce(
  (sum, place) => (sum === null || TRIALS[place][key] === null ? null : sum + TRIALS[place][key]), 0);
const repetitionSpread = (task, sides) => {
  const ranges = sides.map((side) => range(task.sides[side].trials.map((place) => TRIALS[place].score).filter((score) => score !== null)));
  return ranges.some((each) => each !== null) ? Math.max(...ranges) : null;
};

// Each order: its words, what is compared, which way it goes first, and how its column shows the value.
const ORDERS = {
  __proto__: null,
  change: {words: 'worst change', value: (task, sides) => least(sides.map((side) => changeOf(task, side)).filter((change) => change !== null)), way: 1},
  spread: {words: 'widest spread', value: (task, sides) => range(knownScores(task, sides)), way: -1},
  score: {words: 'lowest score', value: (task, sides) => least(knownScores(task, sides)), way: 1},
  task: {words: 'task', value: (task) => task.task, way: 1},
  bucket: {words: 'bucket', value: (task) => `${task.label}\n${task.bucket}`, way: 1},
  repetitions: {words: 'most flaky', value: repetitionSpread, way: -1, column: 'Range', text: figure},
  tokens: {words: 'most tokens', value: total('tokens'), way: -1, column: 'Tokens', text: short},
  cost: {words: 'highest cost', value: total('usd'), way: -1, column: 'Cost', text: money},
  time: {words: 'longest', value: total('seconds'), way: -1, column: 'Time', text: duration},
};
const ordersNow = () => Object.keys(ORDERS).filter((key) => (key !== 'change' || OLD !== null) && (key !== 'spread' || SIDES.length > 2));
const defaultOrder = () => (SIDES.length > 2 ? 'spread' : OLD === null ? 'score' : 'change');

// An order by name; `side:LABEL` is by the score of one side.
function orderOf(key) {
  if (ORDERS[key]) return ORDERS[key];
  const side = key.startsWith('side:') ? SIDES.findIndex(({label}) => label === key.slice(5)) : -1;
  return side < 0 ? ORDERS[defaultOrder()] : {words: `score of ${SIDES[side].label}`, value: (task) => task.sides[side].score, way: 1};
}
function sortOf(query) {
  const sort = query.sort || defaultOrder(), backwards = sort.startsWith('-');
  return {key: backwards ? sort.slice(1) : sort, backwards};
}

function ordered(tasks, query) {
  const {key, backwards} = sortOf(query), {value, way} = orderOf(key), sides = mainSides(query), direction = backwards ? -way : way;
  const values = new Map(tasks.map((task) => [task, [value(task, sides), least(knownScores(task, sides)) ?? 2]]));
  return tasks.sort((a, b) => {
    const [x, low] = values.get(a), [y, other] = values.get(b);
    // What has no value comes last, whichever way the rest goes.
    if (x === null || y === null) return (x === null) - (y === null) || a.place - b.place;
    return (x < y ? -direction : x > y ? direction : 0) || low - other || a.place - b.place;
  });
}

// ---- rows

function haystack(task) {
  task.haystack ??= [task.task, task.bucket, task.label, task.file, ...task.tags,
    ...new Set(task.sides.flatMap(({trials}) => trials.map((place) => TRIALS[place].reason))), ...task.sides.flatMap(({trials}) => trials.map((place) => TRIALS[place].name))]
    .join('\n').toLowerCase();
  return task.haystack;
}

const filterWords = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
const testOf = (get, values) => (each) => get(each).some((value) => values.includes(value));

// Whether a trial is what is asked for, by its filters and by what its transcript has; null: nothing is asked.
function trialTest(query) {
  const tests = Object.entries(query.facets).filter(([name, values]) => values.length && FACETS[name].trial)
    .map(([name, values]) => testOf(FACETS[name].trial, values));
  if (query.text) tests.push((_, place) => Search.found(query.text).has(place));
  return tests.length ? (place) => tests.every((test) => test(TRIALS[place], place)) : null;
}

function taskTest(query) {
  const words = filterWords(query.q);
  const tests = Object.entries(query.facets).filter(([name, values]) => values.length && FACETS[name].task)
    .map(([name, values]) => testOf(FACETS[name].task, values));
  return (task) => tests.every((test) => test(task)) && words.every((word) => haystack(task).includes(word));
}

let selected = {};
// The rows of a query in their order, and `fits`, which says of a trial whether it is asked for.
function select(query) {
  const key = `${STAMP} ${query.text && Search.progress()} ${listHash(query)}`;
  if (selected.key !== key) {
    const fitsTask = taskTest(query), fits = trialTest(query), shown = shownSides(query), main = mainSides(query);
    const fitsShow = ({show}, task) => show.some((chip) => (CHANGED[chip] ? CHANGED[chip](task, main)
      : placesOf(task, main).some((place) => trialMatches(TRIALS[place], chip) && (!fits || fits(place)))));
    const tasks = TASKS.filter((task) => fitsTask(task) && (!fits || placesOf(task, shown).some(fits)) && (!query.show.length || fitsShow(query, task)));
    selected = {key, fits, tasks: ordered(tasks, query)};
  }
  return selected;
}

// Rows of one bucket together, buckets in the order of their first row: the worst first.
function groupRows(tasks) {
  const groups = new Map();
  for (const task of tasks) {
    const key = `${task.label}\n${task.bucket}`;
    if (!groups.has(key)) groups.set(key, [{group: task.bucket, suite: task.suite, key: `\n${key}`}]);
    groups.get(key).push(task);
  }
  return [...groups.values()].flatMap((rows) => [{...rows[0], tasks: rows.length - 1}, ...rows.slice(1)]);
}

// Of a row's trials those that j and k walk through: the ones that filters and chips are about, else all.
function askedTrials(task, query) {
  const {fits} = select(query), chips = query.show.filter((chip) => !CHANGED[chip]), main = placesOf(task, mainSides(query));
  const asked = fits ? placesOf(task, shownSides(query)).filter(fits) : main;
  const narrowed = chips.length && chips.length === query.show.length
    ? asked.filter((place) => chips.some((chip) => trialMatches(TRIALS[place], chip))) : asked;
  return narrowed.length ? narrowed : asked.length ? asked : main;
}
const selectTrials = (query) => select(query).tasks.flatMap((task) => askedTrials(task, query));
const worstTrial = (task, query) => {
  const asked = askedTrials(task, query);
  return worstOf(asked.length ? asked : placesOf(task, sideNumbers()));
};

// How many tasks each chip shows: no matter what else narrows the list.
const chipCounts = kept(() => {
  const main = mainSides(NO_QUERY), chips = [...(OLD === null ? [] : Object.keys(CHANGED)), ...Object.keys(TRIAL_CHIPS)];
  return chips.map((chip) => [chip, countTasks(TASKS.filter((task) => (CHANGED[chip] ? CHANGED[chip](task, main)
    : placesOf(task, main).some((place) => TRIAL_CHIPS[chip](TRIALS[place])))))]);
});

// The values of each filter with the number of tasks that have them, most first; one that all have is none.
const facetCounts = kept(() => Object.entries(FACETS).map(([name, {task: ofTask, trial: ofTrial}]) => {
  const counts = new Map();
  for (const task of TASKS) {
    const values = ofTask ? ofTask(task) : placesOf(task, sideNumbers()).flatMap((place) => ofTrial(TRIALS[place]));
    for (const value of new Set(values)) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  if (name === 'note' && counts.size === 1) counts.clear();
  const few = ofTask && name !== 'tag' && counts.size < 2 || name === 'side' && SIDES.length < 2;
  return [name, few ? [] : [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))];
}));
