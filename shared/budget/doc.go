// Package budget bounds every answer by the five limits of the contract and cuts
// what is larger, never in silence (B1, B2, B3).
//
// It is given the whole answer as one JSON document, the places in it that may
// be cut, and where to go on from. It returns the next part: what fits, and the
// position of the rest. It knows neither tools nor cursors nor what the document
// means. A tool that continues makes the same document again from the same
// snapshot; a document that is another one is refused, so that no part is lost
// or told twice.
//
// # Parts
//
// Everything that is not inside a place stands in every part, so that each part
// fits the schema of the whole: of an item that is cut, its target and label.
// What is inside the places is told once, in the order of the document:
//
//   - a list is cut between its elements, an object of user keys between its
//     members, a text between two characters that a reader sees (never inside
//     a syllable, an emoji or a letter with its accents);
//   - an element is cut inside only when it would not fit an answer alone; it
//     then comes again, with the rest of its own places;
//   - of a typed value, a Record, List or Table that is nested deeper than the
//     limit is null there, and comes in a later part of its own, as the member
//     "nested": {"path", "value"}, where path is the JSON Pointer of that null
//     and value is a typed value around what belongs there.
//
// A part that goes on inside something has a member "at": the JSON Pointer, into
// the whole, of the element, member or text with which it goes on. Whoever joins
// parts needs nothing else: along that pointer, the first element of a list in
// the part is the one with that index in the whole, and what follows is
// appended. Parts with a "nested" of one path are joined like any others.
//
// Members named truncation and nextCursor of the object that is told to be cut
// are in the last part alone.
//
// Where a part begins follows from what the parts before it took. So before a part
// is made every piece of the rest is held to what it takes as the first of a part:
// a budget in which one would not fit is refused at once, and never in the middle.
//
// # What is counted
//
// Bytes are those of the serialized document, tokens are counted from them.
// Items are the elements of the places that count them, and of the lists inside
// typed values; table rows are those of the tables inside typed values and of
// the places that count them. Depth is the nesting of Record, List and Table
// inside a typed value. The limit itself is allowed.
package budget
