// An explanation step by step, read and checked.
import * as check from "./check";
import type { Json } from "./check";
import {
  type Block,
  kRoles,
  kScores,
  type Mask,
  type Piece,
  type Pixels,
  type Section,
  type Steps,
  type Tensor,
} from "../explanation";
import { common_of, cost_of } from "./read_common";

function tensor_of(value: unknown, where: string): Tensor {
  const object = check.object_of(value, where);
  const shape = check.list_of(object.shape, `${where}.shape`, check.count_of);
  if (shape.length < 1 || shape.length > 3) check.refuse(`${where}.shape must have one to three sizes`);
  return {
    name: check.text_of(object.name, `${where}.name`),
    role: check.choice_of(object.role, `${where}.role`, kRoles),
    shape,
    rows: check.texts_of(object.rows, `${where}.rows`),
    columns: check.texts_of(object.columns, `${where}.columns`),
    substituted: check.flag_of(object.substituted, `${where}.substituted`),
    values: check.null_or(object.values, `${where}.values`, (values, at) => check.nested_of(values, at, shape)),
  };
}

function piece_of(value: unknown, where: string): Piece {
  const object = check.object_of(value, where);
  return {
    text: check.text_of(object.text, `${where}.text`),
    role: check.choice_of(object.role, `${where}.role`, kRoles),
  };
}

function pixels_of(value: unknown, where: string): Pixels {
  const object = check.object_of(value, where);
  return {
    caption: check.text_of(object.caption, `${where}.caption`),
    pixels: check.list_of(object.pixels, `${where}.pixels`, (row, at) => check.vector_of(row, at)),
  };
}

function block_of(value: unknown, where: string): Block {
  const object = check.object_of(value, where);
  return {
    lines: check.list_of(object.lines, `${where}.lines`, (line, at) => check.list_of(line, at, piece_of)),
    pictures: check.list_of(object.pictures, `${where}.pictures`, pixels_of),
    tensors: check.list_of(object.tensors, `${where}.tensors`, tensor_of),
  };
}

function section_of(value: unknown, where: string): Section {
  const object = check.object_of(value, where);
  return {
    number: check.count_of(object.number, `${where}.number`),
    title: check.text_of(object.title, `${where}.title`),
    blocks: check.list_of(object.blocks, `${where}.blocks`, block_of),
  };
}

function mask_of(value: unknown, where: string): Mask {
  const object = check.object_of(value, where);
  return {
    rules: check.texts_of(object.rules, `${where}.rules`),
    hidden: check.null_or(object.hidden, `${where}.hidden`, (hidden, at) =>
      check.list_of(hidden, at, (row, place) => check.vector_of(row, place)),
    ),
  };
}

export function steps_of(value: Json): Steps {
  return {
    kind: "steps",
    ...common_of(value),
    score: check.choice_of(value.score, "score", kScores),
    scale: check.number_of(value.scale, "scale"),
    sections: check.list_of(value.sections, "sections", section_of),
    mask: check.null_or(value.mask, "mask", mask_of),
    substituted: check.texts_of(value.substituted, "substituted"),
    cost: cost_of(value.cost),
  };
}
