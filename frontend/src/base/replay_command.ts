/** The shell command that replays a recording. */
export function replayCommand(file: string): string {
  return `tensor-tracer replay ${quoted(file)}`;
}

/** Quotes a path, so that a shell reads it as one word. */
function quoted(path: string): string {
  return /^[\w./:@%+=,-]+$/.test(path) ? path : `'${path.replace(/'/g, "'\\''")}'`;
}
