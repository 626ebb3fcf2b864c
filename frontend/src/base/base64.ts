/** Decodes Base64; throws an Error if the text is not Base64. */
export function bytesOf(base64: string): ArrayBuffer {
  let text: string;
  try {
    text = atob(base64);
  } catch {
    throw new Error('the records are not in base64');
  }
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}
