import { exchangeToken, tokenOf } from './auth';

/** Whether the user must give a token: the page has none, or the hub refused it. */
export type TokenNeed = 'none' | 'missing' | 'refused';

/** The sign-in: it exchanges the token in the address for the hub's cookie. */
export class SignIn {
  need = $state<TokenNeed>('none');
  private token: string | undefined;
  private tried = false;

  constructor(private readonly connect: () => void) {}

  /** Exchanges the token of the address, if there is one, and connects. */
  async begin(): Promise<void> {
    const token = tokenOf(location.hash);
    if (token !== undefined) {
      this.token = token;
      history.replaceState(null, '', location.pathname + location.search);
    }
    if (this.token !== undefined && (await exchangeToken(this.token)) === 'refused') {
      this.token = undefined;
      this.need = 'refused';
      return;
    }
    this.need = 'none';
    this.connect();
  }

  connected(): void {
    this.tried = false;
  }

  /** Tries the token of this page again, because the cookie is missing or is that of another hub. */
  async again(): Promise<void> {
    if (this.token === undefined || this.tried) {
      this.need = 'missing';
      return;
    }
    this.tried = true;
    await this.begin();
  }
}
