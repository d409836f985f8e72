// What went wrong with a request, in the server's words.
import type { Schemas } from "./types";

export type Problem = Schemas["Problem"];

/** An answer that is a problem, or no answer at all. */
export class ApiError extends Error {
  override name = "ApiError";
  readonly problem: Problem;
  /** Seconds after which the server wants to be asked again. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, retryAfter?: number) {
    super(problem.detail);
    this.problem = problem;
    this.retryAfter = retryAfter;
  }

  get code(): string {
    return this.problem.code;
  }

  /** The messages by field, for forms. */
  get fields(): Map<string, string> {
    return new Map((this.problem.errors ?? []).map((one) => [one.field, one.message]));
  }
}

/** A problem of this page, not of the server: it has no code. */
export function unreachable(cause: unknown): ApiError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ApiError({
    type: "about:blank",
    title: "The server does not answer",
    status: 0,
    code: "" as Problem["code"],
    detail: `no answer from the server (${why}); nothing is known about the request. Retrying is safe.`,
  });
}

/** The problem of an answer that is not 2xx. */
export async function problemOf(response: Response): Promise<ApiError> {
  const retry = Number(response.headers.get("retry-after")) || undefined;
  try {
    const body: unknown = await response.json();
    if (isProblem(body)) return new ApiError(body, retry);
  } catch {
    // Not JSON: something between this page and Trueup answered.
  }
  const trace = response.headers.get("trueup-trace");
  return new ApiError(
    {
      type: "about:blank",
      title: response.statusText || `HTTP ${response.status}`,
      status: response.status,
      code: "" as Problem["code"],
      detail: `the server answered ${response.status} without a description`,
      ...(trace ? { trace } : {}),
    },
    retry,
  );
}

export function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "code" in value && "detail" in value;
}
