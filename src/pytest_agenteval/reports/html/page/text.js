// How texts and numbers are written. Everything foreign goes through `plain` and is given to preact as a
// string, so that it becomes a text node: no value of a transcript is ever markup, a style or a link.

// What turns the writing direction, and controls: written out, so that a text reads as it is stored.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function plain(value) {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2) ?? String(value);
  return text.replace(/\r\n/g, '\n').replace(UNSEEN, writtenOut);
}

function writtenOut(sign) {
  const code = sign.charCodeAt(0), digits = code.toString(16);
  return code < 256 ? `\\x${digits.padStart(2, '0')}` : `\\u${digits}`;
}

function oneLine(value, most = 300) {
  const text = typeof value === 'string' ? value : JSON.stringify(value) ?? '';
  const line = plain(text.slice(0, 4 * most).replace(/\s+/g, ' ').trim());
  return line.length <= most && text.length <= 4 * most ? line : `${line.slice(0, most - 1)}…`;
}

// As Python, which writes all other reports, rounds: of two that are equally near the even one, 0.625 to 0.62.
function fixed(value, digits) {
  const text = value.toFixed(digits), between = /^50*$/.test(value.toFixed(100).slice(digits - 100));
  return between && '13579'.includes(text.at(-1)) ? (value - 0.5 / 10 ** digits).toFixed(digits) : text;
}

// 1.00 and 0.00 are never rounded to: who did not reach the end did not.
function figure(value) {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value), sign = value < -1e-9 ? '−' : '';
  if (size >= 0.995 && size < 1 - 1e-9) return `${sign}0.99`;
  return sign + (size > 1e-9 && size < 0.005 ? '0.01' : fixed(size, 2));
}

function signed(value) {
  if (value === null || value === undefined) return '';
  return value > 1e-9 ? `+${figure(value)}` : figure(Math.abs(value) < 1e-9 ? 0 : value);
}

// The ends of an interval round outwards: what passed in full lies in 0.95–1.00.
function interval(low, high) {
  if (low === null || low === undefined || high === null || high === undefined) return '';
  const bottom = low >= 0 && low < 0.005 ? '0.00' : figure(low);
  return `${bottom}${low < 0 ? ' to ' : '–'}${high >= 0.995 && high <= 1 ? '1.00' : figure(high)}`;
}

const THOUSANDS = new Intl.NumberFormat('en');
const count = (number) => THOUSANDS.format(number);
const plural = (number, thing) => `${count(number)} ${number === 1 ? thing : `${thing}s`}`;
const short = (number) => (number === null || number === undefined ? 'unknown' : number < 10000 ? count(number) : number < 1e6 ? `${Math.round(number / 1000)}k` : `${(number / 1e6).toFixed(1)}M`);

function money(usd) {
  if (usd === null || usd === undefined) return 'cost unknown';
  if (usd > 0 && usd < 0.00005) return 'under $0.0001';
  return usd >= 1 || usd === 0 ? `$${fixed(usd, 2)}` : `$${fixed(usd, 4)}`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return 'unknown';
  if (seconds < 0.1) return `${fixed(seconds * 1000, 0)} ms`;
  if (seconds < 60) return `${fixed(seconds, 1)} s`;
  const whole = Number(fixed(seconds, 0)), hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60);
  return hours ? `${hours} h ${String(minutes).padStart(2, '0')} min` : `${minutes} min ${String(whole % 60).padStart(2, '0')} s`;
}

// Times of turns stand below each other: one unit, and two digits.
function turnTime(seconds) {
  if (seconds === null || seconds === undefined || seconds >= 60) return duration(seconds);
  return `${fixed(seconds, seconds >= 9.95 ? 0 : seconds >= 0.995 ? 1 : seconds >= 0.0995 ? 2 : 3)} s`;
}

// Half of the turns took no longer, and 95 of 100. Replies from recordings take no time, and say nothing of a model.
function turnTimes({p50, p95, turns_unknown: unknown}) {
  if (p50 === null || p95 === null) return unknown ? 'unknown' : '–';
  return p50 < 0.02 ? '–' : `${p95 < 60 ? turnTime(p50).replace(/ s$/, '') : turnTime(p50)} / ${turnTime(p95)}`;
}

// A share is 100 % or 0 % only where it is all or none.
const percent = (share) => `${Math.round(100 * figure(share))} %`;

// As `agenteval compare` writes it.
const probability = (p) => (p < 0.001 ? 'p <0.001' : `p ${fixed(p, p >= 0.1 ? 2 : 3)}`);

// "2026-11-22T20:11:32.376+00:00" as people read it; the zone stays what the run wrote.
const moment = (stamp) => plain(stamp).replace('T', ' ').replace(/\.\d+/, '').replace(/\+00:00$|Z$/, ' UTC');

const size = (characters) => (characters < 1000 ? plural(characters, 'character') : `${(characters / 1000).toFixed(1)} kB`);

// A command that one can copy: whatever a name is made of, a shell takes it for one word.
const quoted = (text) => `'${plain(text).replace(/\s/g, ' ').replaceAll("'", "'\\''")}'`;
const showCommand = (name, run) => `agenteval show ${quoted(name)}${run ? ` --run ${/^[\w.-]+$/.test(run) ? run : quoted(run)}` : ''}`;

// A line of some 100,000 signs in which fonts alternate, as in Korean, takes Chromium half a minute to lay out, for
// each of its lines goes through all runs of a text node: where nodes are short, that is nothing.
function breakableText(text) {
  if (text.length < 2000 || !text.split('\n').some((line) => line.length >= 2000)) return text;
  return text.match(/[^]{300,600}?\s|[^]{1,600}/gu).map((part) => html`${part}<wbr />`);
}

// A long name may be broken where its parts end.
const breakable = (name) => plain(name).split(/(?<=[_\-/.])(?=[^_\-/.])/).map((part) => html`${part}<wbr />`);

const empty = (value) => value === null || value === undefined || value === '' || (typeof value === 'object' && !Object.keys(value).length);

// A sum: its known part, and that a part of it is unknown; what nobody knows anything of is unknown.
function amount(known, unknown, write) {
  if (known === null || known === undefined || (unknown && !known)) return 'unknown';
  return unknown ? `${write(known)} + unknown` : write(known);
}

// One of a side's figures in words, and as a number: null where a part of it is unknown.
const partlyKnown = (figures, key, write) => amount(figures[key], figures[`${key}_unknown`], write);
const whollyKnown = (figures, key) => (figures[`${key}_unknown`] ? null : figures[key] ?? null);
