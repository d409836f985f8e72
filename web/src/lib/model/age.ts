// Ages and moments, as the command line writes them.

/** How long ago, in one or two units: `42s`, `5m`, `3h12m`, `8d`. */
export function age(now: number, then: number): string {
  return span(Math.max(0, Math.floor((now - then) / 1000)));
}

/** A number of seconds, in one or two units. */
export function span(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(seconds / 3600);
  const days = Math.floor(seconds / 86_400);
  if (days > 0) return `${days}d`;
  if (hours > 0) return hours < 10 && minutes % 60 !== 0 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (minutes > 0) return minutes < 10 && seconds % 60 !== 0 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  return `${seconds}s`;
}

/** A moment in UTC, to the second. */
export function moment(iso: string | number): string {
  return new Date(iso).toISOString().slice(0, 19).replace("T", " ") + "Z";
}

/** The time of day in UTC. */
export function clockTime(iso: string | number): string {
  return new Date(iso).toISOString().slice(11, 19) + "Z";
}

/** The day in UTC. */
export function day(iso: string | number): string {
  return new Date(iso).toISOString().slice(0, 10);
}
