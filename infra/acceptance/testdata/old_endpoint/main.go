// Command old_endpoint stands in for the isolated endpoint of a legacy cohort: it says
// whom it was called by and with what.
package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	lambda.Start(func(_ context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		var names []string
		for name := range event.Headers {
			names = append(names, name)
		}
		body, err := json.Marshal(map[string]any{
			"who": event.RequestContext.Authorizer.Lambda["sub"], "body": event.Body, "authorized": strings.Contains(strings.Join(names, " "), "authorization"),
		})
		return events.APIGatewayV2HTTPResponse{StatusCode: 200, Headers: map[string]string{"Content-Type": "application/json"}, Body: string(body)}, err
	})
}
