package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/pxhost/pxhost/shared/wire/event"
)

// assetPath is in front of what pages are drawn with. Anybody may read it: it is the same
// for all, and a page that asks to sign in needs it too.
const assetPath = Root + "/assets/"

//go:embed asset
var assetFiles embed.FS

// assets are by their name in an address, which holds a part of their digest: another
// content has another address, so a browser may keep each for ever.
var assets, assetNames = func() (map[string]event.Response, map[string]string) {
	kinds := map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
	byAddress, byName := map[string]event.Response{}, map[string]string{}
	entries, err := assetFiles.ReadDir("asset")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		body, err := assetFiles.ReadFile("asset/" + e.Name())
		stem, kind, _ := strings.Cut(e.Name(), ".")
		if err != nil || kinds[kind] == "" {
			panic("console: the asset " + e.Name() + " has no media type")
		}
		sum := sha256.Sum256(body)
		address := stem + "-" + hex.EncodeToString(sum[:8]) + "." + kind
		byName[e.Name()] = assetPath + address
		byAddress[address] = event.Response{Status: http.StatusOK, Body: body, Header: http.Header{
			"Content-Type": {kinds[kind]}, "Cache-Control": {"public, max-age=31536000, immutable"}}}
	}
	return byAddress, byName
}()

func asset(method, name string) event.Response {
	found, ok := assets[name]
	switch {
	case method != http.MethodGet:
		return event.Response{Status: http.StatusMethodNotAllowed, Header: http.Header{"Allow": {http.MethodGet}}}
	case !ok: // of another version: the page that names it is to be loaded again
		return event.Response{Status: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: []byte("There is no such file.\n")}
	}
	found.Header = found.Header.Clone()
	return found
}
