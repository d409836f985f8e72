// A code that came in the fragment of a link: the fragment is not sent to the server, and is taken out of the
// address at once, so that it stays in no history.

export function takeFragment(): string {
  const code = decodeURIComponent(location.hash.slice(1));
  if (code) history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}
