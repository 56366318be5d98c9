// Package source edits the Python source of an SDK-linked Flow (F4).
//
// The source is a declarative subset of Python with one statement a fact; its
// grammar is functions/python_source/FLOW.md. Who reads it is python_source: it
// tells the document that the source says, and where each statement and its
// arguments stand. This package turns a change of the document into a change of
// those statements, and of nothing else: every other byte stays, comments and
// blank lines, tabs and line ends among them.
//
// An edit follows from two documents, the one that the source says and the one
// that commands made of it, fact by fact. So every command there is or will be is
// covered, what a list of commands takes back leaves no trace, and a Node that is
// removed and added again keeps its statement. Whether the edit is right is not
// believed: the edited source is read again, and what it says must be, to the
// byte of the canonical encoding, the document that the commands made.
//
// It never reads Python itself, stores nothing, and knows neither plans nor tools.
//
// # Comments
//
// A comment that ends the line of a statement goes with the statement. Comment
// lines above a statement stay when it is removed: whether they speak of it alone
// nobody can tell, and the diff shows them to who does.
package source
