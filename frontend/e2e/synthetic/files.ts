import { createReadStream, existsSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { extname, join, normalize } from 'node:path';

const kTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

/** Sends a file of the built page. */
export function sendFile(dist: string, path: string, response: ServerResponse): void {
  const file = join(dist, normalize(path === '/' ? '/index.html' : path));
  if (!file.startsWith(dist) || !existsSync(file)) {
    response.writeHead(404).end();
    return;
  }
  response.setHeader('Content-Type', kTypes[extname(file)] ?? 'application/octet-stream');
  createReadStream(file).pipe(response);
}
