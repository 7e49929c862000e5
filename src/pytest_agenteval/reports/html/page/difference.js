// Where two trials differ: reports/text_difference.py and reports/trial_difference.py, in this language. A test holds
// that both give equal results, so a change of one is a change of both. Nothing here touches the page.

const MOST_CELLS = 100_000_000;
const MOST_STRETCH = 64_000;

const BLANK_SIGNS = String.raw` \t\v\f\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;
const LETTER_SIGNS = String.raw`0-9A-Za-z_\xaa\xb5\xba\xc0-\xd6\xd8-\xf6\xf8-\u10ff\u1200-\u167f\u1681-\u1fff\u2c00-\u2dff\ua4d0-\ua95f\ua980-\uabff\ufb00-\ufdff\ufe70-\ufefe`;
const SYLLABLE = String.raw`[\u1100-\u115f\ua960-\ua97f]+[\u1160-\u11ff\ud7b0-\ud7ff]*`;
const COMBINING = String.raw`[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\u{1f3fb}-\u{1f3ff}]`;
const WORD_PATTERN = new RegExp(String.raw`\n|[${BLANK_SIGNS}]+|[${LETTER_SIGNS}]+|${SYLLABLE}|.(?:${COMBINING}|\u200d.)*`, 'gsu');
const LINE_PATTERN = /[^\n]*\n|[^\n]+/g;
const STARTS_BLANK = new RegExp(String.raw`^[\n${BLANK_SIGNS}]`, 'u');

const wordsOf = (text) => text.match(WORD_PATTERN) ?? [];

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
    const words = [wordsOf(before), wordsOf(after)], aligned = alignSequences(...words, remaining);
    coarse ||= aligned.coarse;
    if (!aligned.coarse) remaining -= aligned.cells;
    runs.push(...wordRuns(...words, aligned.blocks));
  }
  return {runs: joinedRuns(runs), is_coarse: coarse};
}

const changedRuns = (old, now) => [['-', old], ['+', now]].filter(([, text]) => text);
const solidWords = (words) => words.reduce((sum, word) => sum + !STARTS_BLANK.test(word), 0);

function wordRuns(old, now, blocks) {
  const parts = blocks.map((block) => {
    const before = old.slice(...block.old), after = now.slice(...block.now);
    return {equal: block.equal, old: before, now: after, oldSize: solidWords(before), nowSize: solidWords(after)};
  });
  const sizeOf = (part) => Math.max(part.oldSize, part.nowSize), merged = [];
  const take = (part, other) => {
    part.equal = false;
    for (const word of other.old) part.old.push(word);
    for (const word of other.now) part.now.push(word);
    part.oldSize += other.oldSize;
    part.nowSize += other.nowSize;
  };
  parts.forEach((part, place) => {
    const last = merged.at(-1), inside = place > 0 && place < parts.length - 1;
    if (part.equal && inside && sizeOf(part) < Math.min(sizeOf(last), sizeOf(parts[place + 1]))) take(last, part);
    else if (last && !part.equal && !last.equal) take(last, part);
    else merged.push(part);
  });
  const common = merged.reduce((sum, part) => sum + (part.equal ? sizeOf(part) : 0), 0);
  if (4 * common < Math.min(solidWords(old), solidWords(now))) return changedRuns(old.join(''), now.join(''));
  return merged.flatMap((part) => (part.equal ? [['=', part.old.join('')]] : changedRuns(part.old.join(''), part.now.join(''))));
}

function joinedRuns(runs) {
  const joined = [];
  for (const [tag, text] of runs) {
    if (tag === '=' && joined.at(-1)?.[0] === '=') joined.at(-1)[1] += text;
    else joined.push([tag, text]);
  }
  return joined;
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
