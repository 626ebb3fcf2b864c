/** Takes the token out of a fragment such as "#token=abc"; undefined when there is none. */
export function tokenOf(hash: string): string | undefined {
  const token = new URLSearchParams(hash.replace(/^#/, '')).get('token');
  return token === null || token === '' ? undefined : token;
}

/** Address of the hub's socket for a page at `base`: http://host/?a#b -> ws://host/ws. */
export function socketUrl(base: string): string {
  const url = new URL('ws', base);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url.href;
}

/**
 * Exchanges a token for the hub's cookie. 'unreachable' is worth another try, 'refused' is not.
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
