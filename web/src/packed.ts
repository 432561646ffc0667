// Text that the build has packed (web/packed.mjs), as it was.
import { inflateSync, strFromU8 } from "fflate";
import { bytes_of } from "./live/base85";

export const unpacked = (letters: string): string => strFromU8(inflateSync(bytes_of(letters)));
