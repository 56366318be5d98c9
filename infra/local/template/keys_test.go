package template

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// covers: H2
func TestKeysAndTheirAliases(t *testing.T) {
	const text = `
Resources:
  AnAlias: {Type: AWS::KMS::Alias, Properties: {AliasName: !Sub "alias/${AWS::StackName}-a", TargetKeyId: !Ref Secrets}}
  Another: {Type: AWS::KMS::Alias, Properties: {AliasName: alias/b, TargetKeyId: !GetAtt Secrets.Arn}}
  Secrets: {Type: AWS::KMS::Key, Properties: {Description: d, EnableKeyRotation: true, KeyUsage: ENCRYPT_DECRYPT, KeySpec: SYMMETRIC_DEFAULT, Enabled: true, MultiRegion: false}}
  Other: {Type: AWS::KMS::Key}
Outputs:
  Key: {Value: !Ref Secrets}
  Arn: {Value: !GetAtt Secrets.Arn}
  Alias: {Value: !Ref AnAlias}
`
	tpl, err := parse(t, text)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := parse(t, text)
	secrets := tpl.Keys[1]
	if len(tpl.Keys) != 2 || !reflect.DeepEqual(tpl.Keys, again.Keys) || secrets.LogicalID != "Secrets" || tpl.Keys[0].ID == secrets.ID || !reflect.DeepEqual(secrets.Aliases, []string{"alias/px-a", "alias/b"}) ||
		!regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(secrets.ID) {
		t.Errorf("%+v", tpl.Keys)
	}
	if tpl.Outputs["Key"] != secrets.ID || tpl.Outputs["Arn"] != secrets.ARN || secrets.ARN != "arn:aws:kms:us-east-1:000000000000:key/"+secrets.ID || tpl.Outputs["Alias"] != "alias/px-a" {
		t.Errorf("%+v", tpl.Outputs)
	}
}

// covers: H2, H4
func TestWhatOfKeysAndConditionsIsNotSupportedIsRefusedByName(t *testing.T) {
	statement := func(condition string) string {
		return "Resources:\n  F:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: x\n      Policies:\n        Statement:\n" +
			"          - {Effect: Allow, Action: kms:Decrypt, Resource: \"*\", Condition: " + condition + "}\n"
	}
	for name, text := range map[string]string{
		"/Resources/K/Properties/KeyPolicy":                                                            "Resources:\n  K: {Type: AWS::KMS::Key, Properties: {KeyPolicy: {}}}\n",
		"/Resources/K/Properties/KeySpec":                                                              "Resources:\n  K: {Type: AWS::KMS::Key, Properties: {KeySpec: RSA_2048}}\n",
		"/Resources/K/Properties/KeyUsage":                                                             "Resources:\n  K: {Type: AWS::KMS::Key, Properties: {KeyUsage: SIGN_VERIFY}}\n",
		"/Resources/K/Properties/Enabled":                                                              "Resources:\n  K: {Type: AWS::KMS::Key, Properties: {Enabled: false}}\n",
		"/Resources/K/Properties/MultiRegion":                                                          "Resources:\n  K: {Type: AWS::KMS::Key, Properties: {MultiRegion: true}}\n",
		"/Resources/A/Properties/AliasName":                                                            "Resources:\n  K: {Type: AWS::KMS::Key}\n  A: {Type: AWS::KMS::Alias, Properties: {AliasName: a, TargetKeyId: !Ref K}}\n",
		"/Resources/A/Properties/TargetKeyId":                                                          "Resources:\n  A: {Type: AWS::KMS::Alias, Properties: {AliasName: alias/a, TargetKeyId: x}}\n",
		"/Resources/F/Properties/Policies/Statement/0/Condition/StringEquals":                          statement("{StringEquals: {a: b}}"),
		"/Resources/F/Properties/Policies/Statement/0/Condition/ForAllValues:StringLike/aws:TagKeys":   statement("{\"ForAllValues:StringLike\": {\"aws:TagKeys\": [a]}}"),
		"/Resources/F/Properties/Policies/Statement/0/Condition/Null/aws:SourceArn":                    statement("{Null: {\"aws:SourceArn\": \"false\"}}"),
		"/Resources/F/Properties/Policies/Statement/0/Condition/Null/kms:EncryptionContext:connection": statement("{Null: {\"kms:EncryptionContext:connection\": \"true\"}}"),
	} {
		_, err := parse(t, text)
		var found Findings
		if !errors.As(err, &found) || !slices.ContainsFunc(found, func(f Finding) bool {
			return f.Path == name && strings.Contains(f.Message, "px local") || f.Path == name && strings.HasPrefix(name, "/Resources/A/")
		}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	tpl, err := parse(t, statement("{Null: {\"kms:EncryptionContext:connection\": \"false\", \"kms:EncryptionContext:workspace\": \"false\"}}"))
	if err != nil || !reflect.DeepEqual(tpl.Functions[0].Policy[0].Present, []string{"kms:EncryptionContext:connection", "kms:EncryptionContext:workspace"}) {
		t.Errorf("%+v %v", tpl, err)
	}
	tpl, err = parse(t, statement("{\"ForAllValues:StringLike\": {\"dynamodb:LeadingKeys\": [cursor, \"told#*\"]}}"))
	if err != nil || !reflect.DeepEqual(tpl.Functions[0].Policy[0].Every, map[string][]string{"dynamodb:LeadingKeys": {"cursor", "told#*"}}) {
		t.Errorf("%+v %v", tpl, err)
	}
}
