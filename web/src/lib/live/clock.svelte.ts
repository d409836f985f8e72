// The server's clock: every age on screen is by it, so a wrong clock of this computer shows nothing wrong.

class Clock {
  /** How far the server is ahead, in milliseconds. */
  #ahead = 0;
  /** The round trip of the best measurement so far; a faster one replaces it. */
  #trip = Number.POSITIVE_INFINITY;
  /** The server's time, renewed each second. */
  now = $state(Date.now());
  #timer: ReturnType<typeof setInterval> | undefined;

  /** The server's time at this moment. */
  exact(): number {
    return Date.now() + this.#ahead;
  }

  /** Learns from the `Date` of an answer, which is cut to seconds. */
  heard(date: string | null, began: number, ended: number): void {
    if (!date) return;
    const server = Date.parse(date);
    const trip = ended - began;
    if (Number.isNaN(server) || trip > this.#trip) return;
    this.#trip = trip;
    const ahead = server + 500 - (began + ended) / 2;
    // Below a second it is only the cut of the header.
    this.#ahead = Math.abs(ahead) <= 1500 ? 0 : ahead;
    this.now = this.exact();
  }

  start(): void {
    this.#timer ??= setInterval(() => (this.now = this.exact()), 1000);
  }
}

export const clock = new Clock();
