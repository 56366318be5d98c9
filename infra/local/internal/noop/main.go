// Command noop is a function that does nothing but what every tool call costs:
// as the edge it invokes the function that NOOP_NEXT names and answers with its
// answer, as the tool it gets one item of the table that NOOP_TABLE names, and with
// neither it answers at once. Before that, it puts as many items as NOOP_WRITES says
// into that table, one after the other. It is the reference beside which the real path
// is measured.
package main

import (
	"context"
	"crypto/rand"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awsdynamodb"
	"github.com/pxhost/pxhost/shared/boot/awslambda"
)

type handler func(context.Context, []byte) ([]byte, error)

func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return h(ctx, payload) }

// size is about that of a row with a record in it, in bytes.
const size = 900

// writer puts items, each a new one.
func writer(env *boot.Env, table string) func(context.Context) error {
	writes := env.Whole("NOOP_WRITES", 1, 100)
	if writes == 0 {
		return func(context.Context) error { return nil }
	}
	client := awsdynamodb.New(env)
	record := &types.AttributeValueMemberS{Value: strings.Repeat("x", size)}
	return func(ctx context.Context) error {
		for range writes {
			if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: rand.Text()}, "record": record}}); err != nil {
				return err
			}
		}
		return nil
	}
}

func main() {
	env := boot.NewEnv(os.LookupEnv)
	table := env.Get("NOOP_TABLE")
	write := writer(env, table)
	if next := env.Get("NOOP_NEXT"); next != "" {
		client := awslambda.New(env)
		boot.Check(env.Err())
		boot.Start(handler(func(ctx context.Context, payload []byte) ([]byte, error) {
			if err := write(ctx); err != nil {
				return nil, err
			}
			out, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &next, Payload: payload})
			if err != nil {
				return nil, err
			}
			return out.Payload, nil
		}))
	}
	if table == "" {
		boot.Start(handler(func(context.Context, []byte) ([]byte, error) { return []byte(`{}`), nil }))
	}
	client := awsdynamodb.New(env)
	boot.Check(env.Err())
	boot.Start(handler(func(ctx context.Context, _ []byte) ([]byte, error) {
		if err := write(ctx); err != nil {
			return nil, err
		}
		_, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}})
		return []byte(`{"statusCode":200,"body":"done"}`), err
	}))
}
