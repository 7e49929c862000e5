// How fast a run is, and how long it may still take.

const elapsedWords = (seconds) => (seconds < 60 ? `${Math.round(seconds)} s` : duration(seconds));
const FEWEST_ENDED = 3;

function pace({ended, planned, since, ended_since: endedSince}) {
  const elapsed = Math.max(0, (Date.now() - Date.parse(since)) / 1000), rate = elapsed > 0 ? endedSince / elapsed : 0;
  const left = endedSince >= FEWEST_ENDED && ended < planned ? (planned - ended) / rate : null;
  return [elapsedWords(elapsed), endedSince > 0 && (rate >= 1 ? `${fixed(rate, 1)} a second` : `${fixed(60 * rate, 1)} a minute`),
    left !== null && `about ${elapsedWords(left)} left`].filter(Boolean);
}
