// Package wire speaks the formal MCP wire: stateless JSON-RPC 2.0, one message a
// line, and of its methods tools/list and tools/call alone. It reads lines
// strictly, runs the calls of one request side by side, and writes one reply
// line a request, in request order, within a fixed ledger of bytes.
//
// It knows neither HTTP nor AWS nor any tool: the gateway and stdio bring the
// lines, a Call function reaches the tools, and the catalog is bytes.
//
// # What the rows leave open, settled here
//
//   - A line ends with LF; the last one may go without. CR before LF is JSON
//     white space. Blank lines are no messages: they get no reply and are not
//     counted. A request without any message is refused as a whole.
//   - Everything that is wrong as JSON, duplicates, surrogates, UTF-8 and depth
//     included, is -32700 with id null, wherever it stands. The size of a number
//     is not: that is the schema's question.
//   - A message has the members jsonrpc, id, method and params and no other one.
//     Anything else, a wrong-case name included, is -32600.
//   - The id is a string or a number, at most MaxID bytes as sent, and comes back
//     byte for byte. null, which JSON-RPC allows and discourages, is refused:
//     -32600 with id null, like an object, an array or a boolean. If the id is
//     readable, other -32600 errors carry it.
//   - A notification gets no reply and is never run, tools/call included: what
//     it did could not be told to anyone. A line that is no valid message is no
//     notification either, and gets its -32600.
//   - params of tools/list may hold _meta, and cursor, which is always refused:
//     the catalog has one page, so that no cursor was ever issued.
//   - params of tools/call are name, arguments (absent: {}) and _meta; any other
//     member is -32602. That refuses the task of MCP Tasks: no Task becomes a Run.
//   - Of _meta only px/assistant is read; it must be {provider, model}. Other
//     members of _meta are open by MCP's rules and have no effect: a
//     progressToken gets no progress.
//   - The data of -32603 is {retryable, reason, outcome}. outcome tells an apply
//     that was never started from one of which nothing is known; see Failure.
//   - A refused legacy tool has the path /name: the member of params.
package wire

// The bounds of one request.
const (
	MaxLine  = 2 << 20 // bytes of a line, its line end not counted
	MaxBody  = 4 << 20 // bytes of a request
	MaxLines = 64      // messages in a request
	MaxID    = 1024    // bytes of an id as sent, so that an error line always fits its share

	// ReplyBytes is what all reply lines of a request use together, counted as
	// they stand in a JSON string: Lambda answers are limited to 6 MB, and the
	// endpoint's answer holds the lines escaped.
	ReplyBytes = 5_500_000
	// MaxReplyLine is the most that one reply line uses, counted likewise.
	MaxReplyLine = 2 << 20

	// SideBySide is how many calls of a request run at the same time.
	SideBySide = 8
)

// share returns how many escaped bytes each of n reply lines may use, its line
// end included.
func share(n int) int { return min(MaxReplyLine, ReplyBytes/max(n, 1)) }
