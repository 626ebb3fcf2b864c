/** Makes a switch over a union exhaustive: the compiler objects when a case is missing. */
export function assertUnreachable(value: never): never {
  throw new Error(`unexpected value ${String(value)}`);
}
