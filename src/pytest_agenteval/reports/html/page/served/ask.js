// Requests to the server of this page, and to nobody else. Pages that are files lack this script: they ask for nothing.

class Refused extends Error {}

// Gives {data, version}, or null where the version that is known is the newest.
async function ask(path, {version = '', posted} = {}) {
  if (!path.startsWith('/api/')) throw new Error('no address of this server');
  const headers = {...(version && {'If-None-Match': version}), ...(posted && {'Content-Type': 'application/json'})};
  let reply;
  try {
    reply = await fetch(path, {headers, cache: 'no-store', ...(posted && {method: 'POST', body: JSON.stringify(posted)})});
  } catch {
    throw new Refused('agenteval view has ended: start it again to see what is new');
  }
  if (reply.status === 304) return null;
  if (reply.status === 403) throw new Refused('this page may no longer read runs: open the address that agenteval view printed');
  if (!reply.ok) throw new Refused((await reply.json().catch(() => ({}))).problem ?? `the server answered ${reply.status}`);
  return {data: await reply.json(), version: reply.headers.get('ETag') ?? ''};
}
