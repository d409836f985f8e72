// Events on one axis of time, a lane per source. Long quiet spans are compressed: the axis is the square root
// of the age, so that the last minute is as readable as the last day.
import type { CloudEvent } from "../api/types";

export interface Mark {
  event: CloudEvent;
  /** From 0, the oldest, to 1, now. */
  at: number;
}

export interface Lane {
  name: string;
  marks: Mark[];
}

const NAMES: [string, string][] = [
  ["/trueup/user", "requests"],
  ["/trueup/reconciler", "execution"],
  ["/trueup/k8s_watch", "cluster"],
];

export function lanes(events: CloudEvent[], now: number): { from: number; lanes: Lane[] } {
  const times = events.map((event) => Date.parse(event.time));
  const from = Math.min(now - 1000, ...times);
  const place = (time: number): number => 1 - Math.sqrt(Math.max(0, now - time) / (now - from));
  const made = NAMES.map(([, name]): Lane => ({ name, marks: [] }));
  for (const event of events) {
    const row = NAMES.findIndex(([source]) => source === event.source);
    // Everything else is rare, and acts as the execution does.
    made[row < 0 ? 1 : row]?.marks.push({ event, at: place(Date.parse(event.time)) });
  }
  return { from, lanes: made };
}
