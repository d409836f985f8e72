// Events never change what is on screen: they make reads due. A due read runs at once, and then at most
// every 200 milliseconds, so that a burst of a hundred events is one or two requests.

export const GAP_MS = 200;

export class DueRead {
  #run: () => Promise<void>;
  #now: () => number;
  #last = Number.NEGATIVE_INFINITY;
  #running = false;
  #again = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stopped = false;

  constructor(run: () => Promise<void>, now: () => number = Date.now) {
    this.#run = run;
    this.#now = now;
  }

  /** Asks for a read that begins after this moment. */
  due(): void {
    if (this.#stopped) return;
    if (this.#running) {
      this.#again = true;
      return;
    }
    if (this.#timer !== undefined) return;
    const wait = this.#last + GAP_MS - this.#now();
    if (wait > 0) this.#timer = setTimeout(() => this.#start(), wait);
    else this.#start();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #start(): void {
    this.#timer = undefined;
    this.#running = true;
    this.#last = this.#now();
    void this.#run().finally(() => {
      this.#running = false;
      if (this.#again) {
        this.#again = false;
        this.due();
      }
    });
  }
}
