// A limit on requests in flight, first come first served.

export class Slots {
  #free: number;
  #waiting: (() => void)[] = [];

  constructor(size: number) {
    this.#free = size;
  }

  /** Waits for a slot; the result gives it back. Rejects when the signal is aborted first. */
  async take(signal?: AbortSignal | null): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) {
      this.#free -= 1;
    } else {
      await new Promise<void>((resolve, reject) => {
        const go = (): void => {
          signal?.removeEventListener("abort", stop);
          resolve();
        };
        const stop = (): void => {
          this.#waiting = this.#waiting.filter((one) => one !== go);
          reject(signal?.reason as Error);
        };
        this.#waiting.push(go);
        signal?.addEventListener("abort", stop, { once: true });
      });
    }
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    };
  }
}
