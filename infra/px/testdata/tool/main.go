// Command tool is a tool that fails in the way that its BEHAVIOUR says. Each
// invocation leaves a byte in the file COUNT.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/tool"
)

func main() {
	behaviour := os.Getenv("BEHAVIOUR")
	boot.Start(boot.Tool(func(ctx context.Context, request tool.Request) (json.RawMessage, error) {
		count, err := os.OpenFile(os.Getenv("COUNT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if _, err := count.WriteString("."); err != nil {
			return nil, err
		}
		if err := count.Close(); err != nil {
			return nil, err
		}
		switch behaviour {
		case "hang":
			time.Sleep(time.Hour)
		case "exit":
			os.Exit(3)
		case "panic":
			panic("secret-1234")
		case "fatal":
			return nil, tool.Fatal(errors.New("secret-1234"))
		case "retryable":
			return nil, tool.Retryable(errors.New("secret-1234"))
		case "no envelope":
			return json.RawMessage(`{"ok":true}`), nil
		}
		return json.RawMessage(fmt.Sprintf(`{"ok":true,"data":{"who":%q,"tool":%q,"arguments":%s,"byteShare":%d,"seconds":%d},"diagnostics":[],"resources":[]}`,
			request.Principal.Subject, request.Tool, request.Arguments, request.ByteShare, int(time.Until(request.Deadline).Round(time.Second).Seconds()))), nil
	}))
}
