/** Takes the token out of a fragment such as "#token=abc"; undefined when there is none. */
export function tokenOf(hash: string): string | undefined {
  const token = new URLSearchParams(hash.replace(/^#/, '')).get('token');
  return token === null || token === '' ? undefined : token;
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
