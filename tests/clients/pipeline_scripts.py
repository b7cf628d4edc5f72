"""How scripts of the `pipeline` SDK begin, and what they all need.

A script is text: it runs in the environment of FATE's client, which has neither fedflow nor numpy's
version of this one. All of them begin with `START` and print one line of JSON with `show`.
"""

from __future__ import annotations

from typing import Final

START: Final = """
import json, sys
from pipeline.backend.pipeline import PipeLine
from pipeline.component import *
from pipeline.component import ColumnExpand, DataStatistics, FeatureImputation, FederatedSample
from pipeline.component import FeldmanVerifiableSum, LabelTransform, LocalBaseline
from pipeline.component import PositiveUnlabeled, SampleWeight
from pipeline.interface import Data, Model

GUEST, HOST = {"role": "guest", "party_id": 9999}, {"role": "host", "party_id": 10000}
ZEROS = {"init_method": "zeros", "fit_intercept": True}
KEY = {"method": "Paillier", "key_length": 1024}
QUICK = dict(max_iter=2, learning_rate=0.15, alpha=0.01, tol=1e-4, batch_size=-1, init_param=ZEROS,
             encrypt_param=KEY)

class Job:
    '''A pipeline that is written as one line per component.'''

    def __init__(self):
        self.line = PipeLine().set_initiator(**GUEST).set_roles(
            guest=9999, host=10000, arbiter=10000)

    def read(self, name, guest, host, line=None):
        reader = Reader(name=name)
        for site, table in ((GUEST, guest), (HOST, host)):
            reader.get_party_instance(**site).component_param(
                table={"name": table, "namespace": "experiment"})
        (line or self.line).add_component(reader)
        return reader.output.data

    def transform(self, name, data, **label):
        found = DataTransform(name=name)
        found.get_party_instance(**GUEST).component_param(with_label=True, **label)
        found.get_party_instance(**HOST).component_param(with_label=False)
        self.line.add_component(found, data=Data(data=data))
        return found.output.data

    def add(self, kind, name, data=None, model=None, isometric=None, at=None, at_host=None,
            **parameters):
        found = kind(name=name, **parameters)
        for site, given in ((GUEST, at), (HOST, at_host)):
            if given:
                found.get_party_instance(**site).component_param(**given)
        data = data if isinstance(data, dict) else {"data": data}
        inputs = {"data": Data(**data)}
        if model or isometric:
            inputs["model"] = Model(model=model, isometric_model=isometric)
        self.line.add_component(found, **inputs)
        return found.output

    def fit(self):
        self.line.compile()
        self.line.fit()
        return self.line

    def predict(self, names, guest, host):
        '''Deploy these components, and predict and evaluate with the last of them.'''
        parts = [getattr(self.line, name) for name in names]
        self.line.deploy_component(parts)
        predict = PipeLine()
        read = self.read("reader_1", guest, host, line=predict)
        predict.add_component(self.line, data=Data(predict_input={parts[0].input.data: read}))
        predict.add_component(Evaluation(name="evaluation_1", eval_type="binary"),
                              data=Data(data=parts[-1].output.data))
        predict.predict()
        return predict

def summary(line, name):
    return line.get_component(name).get_summary()

def rows(line, name):
    found = line.get_component(name).get_output_data()
    if not isinstance(found, (list, dict)):
        found = [found]
    found = list(found.values()) if isinstance(found, dict) else found
    return [{"columns": list(one.columns), "rows": len(one)} for one in found]

def values(line, name):
    return line.get_component(name).get_output_data().to_dict(orient="list")

def show(**found):
    print()
    print(json.dumps(found))
"""
