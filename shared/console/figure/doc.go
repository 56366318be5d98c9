// Package figure draws what pages show: directed graphs of what uses what, and plots
// of numeric tables. A figure is SVG as markup of the page, with classes and no style
// of its own, so that it stands under a strict content security policy and follows the
// page's colours; it needs no script. Beside each drawing stands the same in words.
//
// The same input is drawn as the same bytes. Nothing is left out silently: what is too
// much for a drawing is put together, counted, and said so. The package knows no page,
// no tool and no transport.
package figure
