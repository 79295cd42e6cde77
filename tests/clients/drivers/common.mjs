// The facts that every driver needs, from its environment, and the loop over its journeys.
export const { GATEWAY, CUT, KEY, POOR, REVOKED, NAME } = process.env;
export const DOWN = "down";
export const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9" +
  "awAAAABJRU5ErkJggg==";
export const HELLO = "Say hello.";
export const COUNT = "Count to five.";
export const WEATHER = "How is the weather in Paris?";
export const PICTURE = "What is in this picture?";
export const HANG = "Think for an hour.";
export const MY_NAME = `My name is ${NAME}.`;
export const WHAT_NAME = "What is my name?";
export const weather = ({ city }) => `It is sunny in ${city}.`;

export async function main(journeys) {
  const found = {};
  for (const [name, journey] of Object.entries(journeys)) {
    try {
      found[name] = await journey();
    } catch (error) {
      console.error(name, error);
      found[name] = { error: `${error.name}: ${error.message}` };
    }
  }
  console.log(JSON.stringify(found));
}
