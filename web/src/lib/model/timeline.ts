// Events in their order, a lane per source. The axis has no scale: events of one second stay apart, and a
// long quiet span is a gap with its length, so that what happened is readable however long ago it was.
import type { CloudEvent } from "../api/types";
import { span } from "./age";

export interface Mark {
  event: CloudEvent;
  /** Its place in the order, from 0. */
  at: number;
  lane: number;
}

export interface Gap {
  /** Before the event at this place. */
  before: number;
  text: string;
}

export interface Timeline {
  marks: Mark[];
  gaps: Gap[];
  /** How many places there are, gaps included. */
  places: number;
}

export const LANES = ["requests", "execution", "cluster"] as const;
const SOURCES = ["/trueup/user", "/trueup/reconciler", "/trueup/k8s_watch"];
/** A quiet span that is shown as a gap. */
const QUIET_MS = 60_000;

/** The newest events, oldest first. */
export function timeline(events: CloudEvent[], now: number, most = 40): Timeline {
  const shown = [...events].sort((a, b) => Number(a.sequence) - Number(b.sequence)).slice(-most);
  const marks: Mark[] = [];
  const gaps: Gap[] = [];
  let places = 0;
  let before: number | undefined;
  for (const event of shown) {
    const time = Date.parse(event.time);
    if (before !== undefined && time - before > QUIET_MS) {
      gaps.push({ before: places, text: span(Math.round((time - before) / 1000)) });
      places += 2;
    }
    const source = SOURCES.indexOf(event.source);
    // Everything else is rare, and acts as the execution does.
    marks.push({ event, at: places, lane: source < 0 ? 1 : source });
    places += 1;
    before = time;
  }
  if (before !== undefined && now - before > QUIET_MS) {
    gaps.push({ before: places, text: span(Math.round((now - before) / 1000)) });
    places += 2;
  }
  return { marks, gaps, places };
}
