// Where two trials differ: reports/text_difference.py and reports/trial_difference.py, in this language. A test holds
// that both give equal results, so a change of one is a change of both. Nothing here touches the page.

const MOST_CELLS = 100_000_000;
const MOST_STRETCH = 64_000;

const BLANK_SIGNS = String.raw`\n \t\v\f\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;
const LETTER_SIGNS = String.raw`0-9A-Za-z_\xaa\xb5\xba\xc0-\xd6\xd8-\xf6\xf8-\u10ff\u1200-\u167f\u1681-\u1fff\u2c00-\u2dff\ua4d0-\ua95f\ua980-\uabff\ufb00-\ufdff\ufe70-\ufefe`;
const SYLLABLE = String.raw`[\u1100-\u115f\ua960-\ua97f]+[\u1160-\u11ff\ud7b0-\ud7ff]*`;
const COMBINING = String.raw`[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\u{1f3fb}-\u{1f3ff}]`;
const ONE_SIGN = String.raw`[^${BLANK_SIGNS}](?:${COMBINING}|\u200d.)*`;
const WORD_PATTERN = new RegExp(String.raw`([0-9]+(?:[.,:][0-9]+)+|[${LETTER_SIGNS}]+|${SYLLABLE}|${ONE_SIGN}|)([${BLANK_SIGNS}]*)`, 'gsu');
const LINE_PATTERN = /[^\n]*\n|[^\n]+/g;
const BLANKS_AT_ENDS = new RegExp(String.raw`^[${BLANK_SIGNS}]+|[${BLANK_SIGNS}]+$`, 'gu');
const STARTS_BLANK = new RegExp(`^[${BLANK_SIGNS}]`, 'u');

const withoutEnds = (text) => text.replace(BLANKS_AT_ENDS, '');
const wordsOf = (text) => Array.from(text.matchAll(WORD_PATTERN), ([, word, blanks]) => [word, blanks]).filter(([word, blanks]) => word || blanks);

// Blocks in turn equal and not, each with its first and last place in both sequences; see `align`.
function alignSequences(old, now, most = MOST_CELLS) {
  const shorter = Math.min(old.length, now.length), pairs = [];
  let head = 0, tail = 0;
  while (head < shorter && old[head] === now[head]) head += 1;
  while (tail < shorter - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  const before = old.slice(head, old.length - tail), after = now.slice(head, now.length - tail);
  const cells = before.length * after.length, coarse = cells > most;
  for (let at = 0; at < head; at += 1) pairs.push([at, at]);
  if (cells && !coarse) for (const [at, by] of commonPairs(before, after)) pairs.push([head + at, head + by]);
  for (let at = tail; at > 0; at -= 1) pairs.push([old.length - at, now.length - at]);
  return {blocks: blocksOf(pairs, old.length, now.length), cells, coarse};
}

// All columns of a row at once, 32 in each number: see `_common_pairs`.
function commonPairs(old, now) {
  const width = now.length, size = Math.ceil(width / 32), numbers = new Map(), places = [];
  now.forEach((item, by) => {
    if (!numbers.has(item)) { numbers.set(item, places.length); places.push(new Uint32Array(size)); }
    const bit = width - 1 - by;
    places[numbers.get(item)][bit >> 5] |= 1 << (bit & 31);
  });
  const rows = new Uint32Array(size * old.length), nowhere = new Uint32Array(size);
  let row = new Uint32Array(size).fill(0xffffffff);
  for (let at = old.length - 1; at >= 0; at -= 1) {
    const place = places[numbers.get(old[at])] ?? nowhere, next = rows.subarray(at * size, (at + 1) * size);
    let carry = 0;
    for (let part = 0; part < size; part += 1) {
      const equal = (row[part] & place[part]) >>> 0, sum = row[part] + equal + carry;
      carry = sum > 0xffffffff ? 1 : 0;
      next[part] = sum | (row[part] & ~equal);
    }
    row = next;
  }
  const pairs = [];
  for (let at = 0, by = 0; at < old.length && by < width;) {
    const bit = width - 1 - by;
    if (old[at] === now[by]) pairs.push([at++, by++]);
    else if ((rows[at * size + (bit >> 5)] >>> (bit & 31)) & 1) by += 1;
    else at += 1;
  }
  return pairs;
}

function blocksOf(pairs, olds, nows) {
  const blocks = [];
  let at = 0, by = 0, start = 0;
  for (const [old, now] of [...pairs, [olds, nows]]) {
    if (old === at && now === by && old < olds && now < nows) { at += 1; by += 1; continue; }
    if (at > start) blocks.push({equal: true, old: [start, at], now: [by - at + start, by]});
    if (old > at || now > by) blocks.push({equal: false, old: [at, old], now: [by, now]});
    start = old; at = old + 1; by = now + 1;
  }
  return blocks;
}

// ---- two texts

// Characters, not the halves of which some are made here.
function isLonger(text, most) {
  if (text.length <= most) return false;
  let count = 0;
  for (const _ of text) if ((count += 1) > most) return true;
  return false;
}

function compareTexts(old, now) {
  const olds = old.match(LINE_PATTERN) ?? [], nows = now.match(LINE_PATTERN) ?? [], runs = [];
  let remaining = MOST_CELLS, coarse = false;
  for (const block of alignSequences(olds, nows).blocks) {
    const before = olds.slice(...block.old).join(''), after = nows.slice(...block.now).join('');
    if (block.equal) { runs.push(['=', before]); continue; }
    if (!before || !after || isLonger(before, MOST_STRETCH) || isLonger(after, MOST_STRETCH)) {
      coarse ||= Boolean(before && after);
      runs.push(...changedRuns(before, after));
      continue;
    }
    const words = [wordsOf(before), wordsOf(after)], aligned = alignSequences(...words.map((side) => side.map(([word]) => word)), remaining);
    coarse ||= aligned.coarse;
    if (!aligned.coarse) remaining -= aligned.cells;
    runs.push(...wordRuns(...words, aligned.blocks));
  }
  return {runs: joinedRuns(runs), is_coarse: coarse};
}

const changedRuns = (old, now) => [['-', old], ['+', now]];

function wordRuns(old, now, blocks) {
  const parts = blocks.map((block) => ({equal: block.equal, old: old.slice(...block.old), now: now.slice(...block.now)}));
  const sizeOf = (part) => Math.max(part.old.length, part.now.length), whole = (words) => words.map((word) => word.join('')).join('');
  let merged = [];
  parts.forEach((part, place) => {
    const last = merged.at(-1), inside = place > 0 && place < parts.length - 1;
    const chance = part.equal && inside && sizeOf(part) < Math.min(sizeOf(last), sizeOf(parts[place + 1]));
    if (!chance && (!last || part.equal || last.equal)) { merged.push(part); return; }
    for (const word of part.old) last.old.push(word);
    for (const word of part.now) last.now.push(word);
  });
  const common = merged.reduce((sum, part) => sum + (part.equal ? sizeOf(part) : 0), 0);
  if (4 * common < Math.min(old.length, now.length)) merged = [{equal: false, old, now}];
  return merged.flatMap((part) => (part.equal
    ? part.old.flatMap(([word, before], at) => [['=', word], ...(before === part.now[at][1] ? [['=', before]] : changedRuns(before, part.now[at][1]))])
    : changedRuns(whole(part.old), whole(part.now))));
}

function joinedRuns(runs) {
  const joined = [], put = (...tagged) => joined.push(...tagged.filter(([, text]) => text));
  let equal = '', gone = '', came = '';
  for (const [tag, text] of [...runs, ['.', '']]) {
    if (tag === '-') gone += text;
    else if (tag === '+') came += text;
    else if (text || tag === '.') {
      if (gone || came) {
        const size = commonEnd(gone, came);
        put(['=', equal], ['-', gone.slice(0, gone.length - size)], ['+', came.slice(0, came.length - size)]);
        equal = gone.slice(gone.length - size);
        gone = came = '';
      }
      equal += text;
    }
  }
  put(['=', equal]);
  return joined;
}

// How many blanks both texts end with.
function commonEnd(old, now) {
  const shorter = Math.min(old.length, now.length);
  let size = 0;
  while (size < shorter && old.at(-1 - size) === now.at(-1 - size) && STARTS_BLANK.test(old.at(-1 - size))) size += 1;
  return size;
}

const MOST_CONTEXT = 160;
const LEAST_FOLDED = 240;

function foldRuns(runs) {
  return runs.flatMap(([tag, text], place) => {
    if (tag !== '=') return [[tag, text]];
    const head = place > 0 ? beginningOf(text) : '', tail = place < runs.length - 1 ? endOf(text.slice(head.length)) : '';
    const middle = text.slice(head.length, text.length - tail.length);
    if (!isLonger(middle, LEAST_FOLDED - 1)) return [[tag, text]];
    return [['=', head], ['~', middle], ['=', tail]].filter(([, part]) => part);
  });
}

function beginningOf(text) {
  const head = [...text.slice(0, 2 * MOST_CONTEXT)].slice(0, MOST_CONTEXT).join('');
  if (head.length === text.length) return head;
  return head.slice(0, head.lastIndexOf('\n') + 1 || head.lastIndexOf(' ') + 1 || head.length);
}

function endOf(text) {
  const tail = [...text.slice(-2 * MOST_CONTEXT)].slice(-MOST_CONTEXT).join('');
  if (tail.length === text.length) return tail;
  return tail.slice(tail.slice(0, -1).indexOf('\n') + 1 || tail.indexOf(' ') + 1);
}

// ---- two trials

function trialSteps(trial) {
  return trial.messages.flatMap((message) => [
    ...(message.mark ? [{message, call: null, mark: message.mark, kind: `message ${message.role}`}] : []),
    ...message.calls.map((call) => ({message, call, mark: call.mark, kind: `call ${call.tool}`})),
  ]);
}

const numbersFrom = ([low, high]) => Array.from({length: high - low}, (_, at) => low + at);
const zipped = (olds, nows) => Array.from({length: Math.max(olds.length, nows.length)}, (_, at) => [olds[at] ?? null, nows[at] ?? null]);
const namedOnce = (nows, olds) => new Set([...nows.keys(), ...olds.keys()]);

function compareTrials(old, now) {
  const steps = [trialSteps(old), trialSteps(now)], stretches = stretchesOf(...steps);
  const [grades, sameGrades] = gradeChanges(old.grades, now.grades), [files, sameFiles] = filePairs(old.files, now.files);
  const olds = old.marks.made_of, nows = now.marks.made_of;
  return {
    made_of: Object.keys(olds).filter((name) => Object.hasOwn(nows, name) && olds[name] !== nows[name]),
    grades, same_grades: sameGrades, stretches,
    has_answer: withoutEnds(old.answer) !== withoutEnds(now.answer) && !showsAnswers(old, now, steps, stretches),
    has_state: old.marks.state !== now.marks.state,
    files, same_files: sameFiles, events: eventChanges(old, now),
  };
}

function stretchesOf(old, now) {
  const marks = (steps) => steps.map((step) => step.mark);
  return alignSequences(marks(old), marks(now)).blocks.map((block) => {
    const places = [numbersFrom(block.old), numbersFrom(block.now)];
    return {is_same: block.equal, rows: block.equal ? zipped(...places) : pairedSteps(old, now, ...places)};
  });
}

function pairedSteps(old, now, olds, nows) {
  return alignSequences(olds.map((at) => old[at].kind), nows.map((at) => now[at].kind)).blocks
    .flatMap((block) => zipped(olds.slice(...block.old), nows.slice(...block.now)));
}

function showsAnswers(old, now, steps, stretches) {
  const last = stretches.at(-1), row = last?.rows.at(-1);
  if (!last || last.is_same || row[0] !== steps[0].length - 1 || row[1] !== steps[1].length - 1) return false;
  return [old, now].every((trial, side) => {
    const step = steps[side].at(-1);
    return step?.call === null && withoutEnds(trial.answer) === withoutEnds(step.message.content);
  });
}

const placesBy = (items, name) => new Map(items.map((item, at) => [item[name], at]));

function gradeChanges(old, now) {
  const olds = placesBy(old, 'grader'), nows = placesBy(now, 'grader'), changes = [], turned = [];
  let same = 0;
  for (const grader of namedOnce(nows, olds)) {
    const places = [olds.get(grader) ?? null, nows.get(grader) ?? null];
    const before = places[0] === null ? null : old[places[0]], after = places[1] === null ? null : now[places[1]];
    const flips = flipsOf(before, after);
    if (before && after && before.score === after.score && before.passed === after.passed && !flips.length) { same += 1; continue; }
    (before && after && before.passed !== after.passed ? turned : changes).push({grader, old: places[0], new: places[1], flips});
  }
  return [[...turned, ...changes], same];
}

function flipsOf(old, now) {
  const olds = placesByClaim(old), nows = placesByClaim(now), flips = [];
  for (const key of namedOnce(nows, olds)) {
    const places = [olds.get(key) ?? null, nows.get(key) ?? null];
    const passes = [old, now].flatMap((grade, side) => (places[side] === null ? [] : [grade.checks[places[side]].passed]));
    if ((passes.length === 1 && !passes[0]) || new Set(passes).size === 2) flips.push({claim: key.slice(key.indexOf(' ') + 1), old: places[0], new: places[1]});
  }
  return flips;
}

// Claims may come twice in a grade: their keys begin with which one of them it is.
function placesByClaim(grade) {
  const numbers = new Map(), places = new Map();
  (grade?.checks ?? []).forEach(({claim}, at) => {
    const number = numbers.get(claim) ?? 0;
    places.set(`${number} ${claim}`, at);
    numbers.set(claim, number + 1);
  });
  return places;
}

function filePairs(old, now) {
  const olds = placesBy(old, 'path'), nows = placesBy(now, 'path'), pairs = [];
  let same = 0;
  for (const path of namedOnce(nows, olds)) {
    const before = olds.get(path) ?? null, after = nows.get(path) ?? null;
    if (before !== null && after !== null && JSON.stringify(old[before]) === JSON.stringify(now[after])) same += 1;
    else pairs.push({path, old: before, new: after});
  }
  return [pairs, same];
}

function eventChanges(old, now) {
  const [olds, nows] = [old, now].map((trial) => new Map(trial.marks.events.map((group) => [group.kind, group])));
  return [...namedOnce(nows, olds)].map((kind) => {
    const before = olds.get(kind), after = nows.get(kind);
    return {kind, old: before?.count ?? 0, new: after?.count ?? 0, is_same: before?.mark === after?.mark, is_routine: (before ?? after).is_routine};
  });
}

// ---- two steps of one kind, and two changes of a file

const RESULT_LABEL = '→', ERROR_LABEL = '→ error', REPLY_LABEL = '→ as shown to the model';
const OUTCOME_LABELS = [RESULT_LABEL, ERROR_LABEL, REPLY_LABEL];

function compareSteps(old, now) {
  const olds = new Map(stepParts(old)), nows = new Map(stepParts(now)), labels = [...namedOnce(olds, nows)];
  const order = [...labels.filter((label) => !OUTCOME_LABELS.includes(label)), ...labels.filter((label) => OUTCOME_LABELS.includes(label))];
  return order.map((label) => {
    const before = olds.get(label) ?? null, after = nows.get(label) ?? null;
    return {label, old: before, new: after, difference: compareTexts(before ?? '', after ?? '')};
  });
}

function stepParts({message, call}) {
  if (call === null) return [['', message.content]];
  const parts = call.raw_args !== null ? [['arguments', call.raw_args]] : Object.entries(call.args).map(([name, value]) => [name, valueText(value)]);
  if (call.error) parts.push([ERROR_LABEL, `${call.error.type}: ${call.error.message}`]);
  else if (call.result === null) parts.push([RESULT_LABEL, call.executed ? 'nothing' : 'not executed']);
  if (call.result !== null) parts.push([RESULT_LABEL, valueText(call.result)]);
  if (call.reply) parts.push([REPLY_LABEL, call.reply]);
  return parts;
}

// Numbers are written as each language writes them.
const valueText = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

const compareFiles = (old, now) => compareTexts(changeText(old), changeText(now));

function changeText(file) {
  if (!file) return 'not changed\n';
  const lines = file.hunks.flatMap((hunk) => [`@@ line ${hunk.new_start}`, ...hunkLines(hunk.rows)]);
  return [file.note ? `${file.change}, ${file.note}` : file.change, ...lines, ''].join('\n');
}

function hunkLines(rows) {
  const lines = [];
  let went = [], came = [];
  for (const [tag, before, after] of [...rows, [' ', null, null]]) {
    if (tag !== ' ') {
      if (before !== null) went.push(`-${before}`);
      if (after !== null) came.push(`+${after}`);
      continue;
    }
    lines.push(...went, ...came);
    went = []; came = [];
    if (before !== null) lines.push(` ${before}`);
  }
  return lines;
}
