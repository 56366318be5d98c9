// Package console is what a person has in a browser: plans and costly Runs to read and
// decide, Runs as they go on, Reports, the history of a Project. It takes API Gateway
// events and answers pages.
//
// It decides nothing itself. What waits for a decision is read and decided through
// package review, with the checks that the door of reviews has; everything else is read
// through the tools, as the person who is signed in, and so shows what that person may
// see. It imports no AWS package and knows no store.
//
// # To add a page
//
//  1. Write its template as page/NAME.html: {{define "NAME"}} … {{end}}, the content of
//     <main> with one <h1>. It is executed with a view: .Data is what the page's handler
//     made, .Who the person, .FormToken what each form needs (write {{template "token" .}}
//     inside every <form method="post">). page.go has the functions that templates have.
//     Everything is escaped by html/template. Marks that cannot be seen, such as those
//     that turn the direction of text, are replaced by their names in every answer, so a
//     template cannot forget it.
//  2. Write its handler, func(context.Context, *Visit) (Answer, error), as a method of
//     *Handler in a file of the subject. It returns a Page (with layout), a Fragment
//     (without, for what a script fetches again) or a Redirect after a form was taken. What a
//     person can act on is an error of type *Problem; refused() makes one of diagnostics.
//     Any other error is logged and answered as "something went wrong".
//  3. Add its route to the table of router.go. A POST is only handled after its session,
//     origin, form token and size were checked. Tools are called with Handler.tool; the
//     list in tools.go names those that may be.
//
// Pages work without JavaScript, and neither style nor script stands in a page: the CSS
// and JS file of folder asset are all there is, and the content security policy allows no
// other. Drawings are SVG markup that is made here, with classes; package figure makes it.
package console
