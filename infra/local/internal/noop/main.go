// Command noop is a function that does nothing but what every tool call costs:
// as the edge it invokes the function that NOOP_NEXT names and answers with its
// answer, as the tool it gets one item of the table that NOOP_TABLE names, and with
// neither it answers at once. It is the reference beside which the real path is
// measured.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awsdynamodb"
	"github.com/pxhost/pxhost/shared/boot/awslambda"
)

type handler func(context.Context, []byte) ([]byte, error)

func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return h(ctx, payload) }

func main() {
	env := boot.NewEnv(os.LookupEnv)
	if next := env.Get("NOOP_NEXT"); next != "" {
		client := awslambda.New(env)
		boot.Check(env.Err())
		boot.Start(handler(func(ctx context.Context, payload []byte) ([]byte, error) {
			out, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &next, Payload: payload})
			if err != nil {
				return nil, err
			}
			return out.Payload, nil
		}))
	}
	table := env.Get("NOOP_TABLE")
	if table == "" {
		boot.Start(handler(func(context.Context, []byte) ([]byte, error) { return []byte(`{}`), nil }))
	}
	client := awsdynamodb.New(env)
	boot.Check(env.Err())
	boot.Start(handler(func(ctx context.Context, _ []byte) ([]byte, error) {
		_, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}})
		return []byte(`{"statusCode":200,"body":"done"}`), err
	}))
}
