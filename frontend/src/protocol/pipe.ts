/** The events of a pipe. A pipe that never opened also ends with `onClosed`. */
export interface PipeListener {
  onOpen(): void;
  onText(text: string): void;
  onBinary(bytes: ArrayBuffer): void;
  onClosed(): void;
}

/** A connection that sends and receives messages. Tests replace the socket with their own pipe. */
export interface Pipe {
  send(text: string): void;
  close(): void;
}

export type PipeFactory = (listener: PipeListener) => Pipe;

/** A pipe over a WebSocket. */
export function webSocketPipe(url: string): PipeFactory {
  return (listener) => {
    const socket = new WebSocket(url);
    socket.binaryType = 'arraybuffer';
    socket.onopen = (): void => listener.onOpen();
    socket.onmessage = (event: MessageEvent<unknown>): void => {
      if (typeof event.data === 'string') listener.onText(event.data);
      else if (event.data instanceof ArrayBuffer) listener.onBinary(event.data);
    };
    socket.onclose = (): void => listener.onClosed();
    return {
      send: (text) => {
        if (socket.readyState === WebSocket.OPEN) socket.send(text);
      },
      close: () => socket.close(),
    };
  };
}
