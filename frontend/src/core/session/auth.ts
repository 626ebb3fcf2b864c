/** The token of a fragment such as "#token=abc"; undefined if the fragment has no token. */
export function tokenOf(hash: string): string | undefined {
  const token = new URLSearchParams(hash.replace(/^#/, '')).get('token');
  return token === null || token === '' ? undefined : token;
}

/** The address of the hub's socket for a page at `base`: http://host/?a#b -> ws://host/ws. */
export function socketUrl(base: string): string {
  const url = new URL('ws', base);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url.href;
}

/**
 * Exchanges a token for the hub's cookie. Another try makes sense after 'unreachable', not after
 * 'refused'.
 */
export async function exchangeToken(
  token: string,
  fetcher: typeof fetch = fetch,
): Promise<'ok' | 'refused' | 'unreachable'> {
  try {
    const response = await fetcher('auth', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    return response.ok ? 'ok' : 'refused';
  } catch {
    return 'unreachable';
  }
}
