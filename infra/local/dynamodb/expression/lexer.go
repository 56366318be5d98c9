package expression

import (
	"strconv"
	"strings"
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNamePlaceholder
	tokenValuePlaceholder
	tokenNumber
	tokenSymbol
	tokenUnknown // a character that no expression has
)

type token struct {
	kind       tokenKind
	text       string
	start, end int
}

// is tells whether the token is a keyword, whatever its case, or a symbol.
func (t token) is(words ...string) bool {
	for _, w := range words {
		if t.kind == tokenName && strings.EqualFold(t.text, w) || t.kind == tokenSymbol && t.text == w {
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) || c == '_' }

// tokenize splits the text into tokens; the last one is always tokenEnd.
func tokenize(text string) []token {
	var tokens []token
	for i := 0; ; {
		for i < len(text) && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
			i++
		}
		if i == len(text) {
			return append(tokens, token{tokenEnd, "<EOF>", i, i})
		}
		t := tokenAt(text, i)
		t.text, t.start = text[i:t.end], i
		tokens, i = append(tokens, t), t.end
	}
}

func tokenAt(text string, start int) token {
	wordEnd := start + 1
	for wordEnd < len(text) && isWord(text[wordEnd]) {
		wordEnd++
	}
	switch c := text[start]; {
	case isLetter(c):
		return token{kind: tokenName, end: wordEnd}
	case c == '#' && wordEnd > start+1:
		return token{kind: tokenNamePlaceholder, end: wordEnd}
	case c == ':' && wordEnd > start+1:
		return token{kind: tokenValuePlaceholder, end: wordEnd}
	case isDigit(c):
		end := start
		for end < len(text) && isDigit(text[end]) {
			end++
		}
		return token{kind: tokenNumber, end: end}
	case strings.IndexByte("()[],.=+-", c) >= 0:
		return token{kind: tokenSymbol, end: start + 1}
	case c == '<' || c == '>':
		end := start + 1
		if end < len(text) && (text[end] == '=' || c == '<' && text[end] == '>') {
			end++
		}
		return token{kind: tokenSymbol, end: end}
	}
	end := start + 1
	for end < len(text) && text[end]&0xC0 == 0x80 { // the rest of one UTF-8 character
		end++
	}
	return token{kind: tokenUnknown, end: end}
}

// parser walks over tokens. The first syntax error ends the parse by a panic
// with a *Error, which parse recovers.
type parser struct {
	text   string
	tokens []token
	pos    int
	depth  int // nesting of parentheses, functions and NOT: at most 4096
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokenEnd {
		p.pos++
	}
	return t
}

// accept takes the token if it is one of the words.
func (p *parser) accept(words ...string) (token, bool) {
	if t := p.peek(); t.is(words...) {
		return p.next(), true
	}
	return token{}, false
}

func (p *parser) expect(word string) {
	if _, ok := p.accept(word); !ok {
		p.fail()
	}
}

// fail reports the token at hand, with the text from the token before it to the
// one after it.
func (p *parser) fail() {
	from, to := p.peek().start, p.peek().end
	if p.pos > 0 {
		from = p.tokens[p.pos-1].start
		if p.peek().kind == tokenEnd {
			to = p.tokens[p.pos-1].end
		}
	}
	if p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].kind != tokenEnd {
		to = p.tokens[p.pos+1].end
	}
	panic(&Error{`Syntax error; token: "` + p.peek().text + `", near: "` + p.text[from:to] + `"`})
}

// parse runs rule over the whole text.
func parse[T any](text string, rule func(*parser) T) (result T, err *Error) {
	switch {
	case text == "":
		return result, &Error{"The expression can not be empty;"}
	case len(text) > maxBytes:
		return result, &Error{"Expression size has exceeded the maximum allowed size; expression size: " + strconv.Itoa(len(text))}
	}
	defer func() {
		if fault := recover(); fault != nil {
			var ok bool
			if err, ok = fault.(*Error); !ok {
				panic(fault)
			}
		}
	}()
	p := &parser{text: text, tokens: tokenize(text)}
	result = rule(p)
	if p.peek().kind != tokenEnd {
		p.fail()
	}
	return result, nil
}

// rawStep is a step as it was written: placeholders not yet replaced.
type rawStep struct {
	text    string // name or #placeholder
	index   int
	indexed bool
}

// steps parses the rest of a path whose first step is head: "[3]" and ".name".
func (p *parser) steps(head token) []rawStep {
	path := []rawStep{{text: head.text}}
	for {
		if _, ok := p.accept("["); ok {
			if p.peek().kind != tokenNumber {
				p.fail()
			}
			index, err := strconv.Atoi(p.peek().text)
			if err != nil || index > maxIndex {
				panic(&Error{"List index is not within the allowable range; index: [" + p.peek().text + "]"})
			}
			p.next()
			p.expect("]")
			path = append(path, rawStep{index: index, indexed: true})
		} else if _, ok := p.accept("."); ok {
			if k := p.peek().kind; k != tokenName && k != tokenNamePlaceholder {
				p.fail()
			}
			path = append(path, rawStep{text: p.next().text})
		} else {
			return path
		}
	}
}

// maxIndex is far beyond the elements that fit into an item of 400 KB.
const maxIndex = 1<<31 - 1

// resolve replaces the placeholders of a path. reserved is the first reserved
// word that is used without a placeholder.
func resolve(raw []rawStep, scope *Scope) (path Path, fault *Error) {
	path = make(Path, len(raw))
	for i, step := range raw {
		path[i] = Step{Name: step.text, Index: step.index, Indexed: step.indexed}
		if strings.HasPrefix(step.text, "#") {
			name, err := scope.attribute(step.text)
			if err != nil && fault == nil {
				fault = err
			}
			path[i].Name = name
		}
	}
	return path, fault
}

// reservedIn returns the first word of a raw path that must not be used bare.
func reservedIn(raw []rawStep) (string, bool) {
	for _, step := range raw {
		if !step.indexed && IsReserved(step.text) {
			return step.text, true
		}
	}
	return "", false
}

func errReserved(word string) *Error {
	return &Error{"Attribute name is a reserved keyword; reserved keyword: " + word}
}

func errDepth(raw []rawStep) *Error {
	if len(raw) <= maxDepth {
		return nil
	}
	return &Error{"The document path has too many nesting elements; nesting levels: " + strconv.Itoa(len(raw))}
}
