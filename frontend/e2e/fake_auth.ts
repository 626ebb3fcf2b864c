import type { IncomingMessage, ServerResponse } from 'node:http';
import { kRunId } from './fake_data.ts';

export function hasCookie(request: IncomingMessage, token: string): boolean {
  return (request.headers.cookie ?? '').includes(`tt-${kRunId}=${token}`);
}

/** Answers POST /auth: the right token gets the cookie. */
export function answerAuth(
  request: IncomingMessage,
  token: string,
  response: ServerResponse,
): void {
  let body = '';
  request.on('data', (part: Buffer) => (body += part.toString()));
  request.on('end', () => {
    const good = (JSON.parse(body) as { token?: unknown }).token === token;
    const cookie = `tt-${kRunId}=${token}; HttpOnly; SameSite=Strict; Path=/`;
    if (good) response.setHeader('Set-Cookie', cookie);
    response.writeHead(good ? 204 : 401).end();
  });
}
