// Reads server-sent events out of a byte stream. `EventSource` cannot be used: it sends no headers, hides
// the reason of a refusal, and swallows the comment lines that prove that a quiet stream is alive.

export interface Message {
  id?: string;
  event?: string;
  data: string;
}

export class SseParser {
  #rest = "";
  #id: string | undefined;
  #event: string | undefined;
  #data: string[] = [];

  /** The messages that a piece of text completes. */
  feed(text: string): Message[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    const messages: Message[] = [];
    for (const line of lines) {
      const message = this.#line(line);
      if (message) messages.push(message);
    }
    return messages;
  }

  #line(line: string): Message | undefined {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
    else if (field === "event") this.#event = value;
    return undefined;
  }

  #end(): Message | undefined {
    const message: Message = { data: this.#data.join("\n") };
    if (this.#id !== undefined) message.id = this.#id;
    if (this.#event !== undefined) message.event = this.#event;
    const complete = this.#data.length > 0;
    this.#data = [];
    this.#event = undefined;
    return complete ? message : undefined;
  }
}
