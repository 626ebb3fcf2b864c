// One legacy client on Node's `ws`: sends the messages given as arguments, prints every text that it
// gets as a line, and ends after `count` of them or with the connection.
//
//     node legacy_client.mjs URL TOKEN DEFLATE COUNT MESSAGE…
import { createRequire } from 'node:module';

const require = createRequire(new URL('../../frontend/package.json', import.meta.url));
const { WebSocket } = require('ws');

const [url, token, deflate, count, ...messages] = process.argv.slice(2);
const socket = new WebSocket(url, {
  headers: { Authorization: `Bearer ${token}` },
  perMessageDeflate: deflate === 'true',
});
let left = Number(count);

socket.on('open', () => messages.forEach((message) => socket.send(message)));
socket.on('message', (data, isBinary) => {
  console.log(isBinary ? 'binary' : JSON.stringify(JSON.parse(data)));
  left -= 1;
  if (left === 0) socket.close();
});
socket.on('error', (error) => {
  console.error(error.message);
  process.exitCode = 1;
});
