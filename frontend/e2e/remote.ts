import { once } from 'node:events';
import { WebSocket } from 'ws';

export type Json = Readonly<Record<string, unknown>>;

/** A viewer beside the page. With it a test controls a run or a replay. */
export class Remote {
  /** The step that the last request was answered with. */
  step = 0;
  /** What the hub said in its answer to `hello`. */
  hello: Json = {};
  private asked = 0;
  private readonly newest = new Map<string, Json>();
  private readonly waiting = new Map<number, (message: Json) => void>();

  private constructor(private readonly socket: WebSocket) {
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (!isBinary) this.onMessage(JSON.parse(data.toString()) as Json);
    });
  }

  static async connect(url: string, token = ''): Promise<Remote> {
    const headers = { Authorization: `Bearer ${token}` };
    const socket = new WebSocket(`${url.replace('http', 'ws')}ws`, { headers });
    await once(socket, 'open');
    const remote = new Remote(socket);
    remote.hello = await remote.ask('hello', { versions: [1], role: 'viewer', watch: false });
    return remote;
  }

  close(): void {
    this.socket.terminate();
  }

  /** The newest notification of a kind. */
  told(event: string): Json | undefined {
    return this.newest.get(event);
  }

  /** Holds control until it gives it back, or somebody takes it over. */
  async claim(name: string): Promise<void> {
    await this.ask('control.claim', { name, take_over: true });
  }

  async release(): Promise<void> {
    await this.ask('control.release', {});
  }

  /** Asks for something that needs control, and gives it back. */
  async control(method: string, params: Json = {}): Promise<Json> {
    await this.claim('test');
    const result = await this.ask(method, params);
    if (typeof result.step === 'number') this.step = result.step;
    await this.release();
    return result;
  }

  async ask(method: string, params: Json): Promise<Json> {
    const id = ++this.asked;
    const answer = new Promise<Json>((resolve) => this.waiting.set(id, resolve));
    this.socket.send(JSON.stringify({ id, method, params }));
    const { error, result } = await answer;
    if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result as Json;
  }

  private onMessage(message: Json): void {
    if (typeof message.event === 'string') {
      this.newest.set(message.event, message.params as Json);
      return;
    }
    const id = message.id as number;
    this.waiting.get(id)?.(message);
    this.waiting.delete(id);
  }
}
